"""The quarter of an hour on a GPU (bench/gpu_run), in its small form on a processor, so that nothing
breaks for the first time on a GPU."""

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from processes import BUILD

FOLDER = Path(__file__).resolve().parents[2] / "bench" / "gpu_run"
sys.path.insert(0, str(FOLDER))
import page  # noqa: E402
import run  # noqa: E402


def options_of(folder, seconds=60):
    return Namespace(out=folder, build=BUILD, bundle=folder, seconds=seconds, cpu=True)


def lines_of(folder):
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


@pytest.mark.whole
def test_all_parts_run_to_their_end_on_a_processor(tmp_path):
    done = subprocess.run([sys.executable, FOLDER / "run.py", "--cpu", "--build", BUILD, "--out",
                           tmp_path], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert "FAILED" not in done.stdout and "BAD" not in done.stdout, (tmp_path / "log.txt").read_text()
    lines = lines_of(tmp_path)
    assert [line["status"] for line in lines if line["part"] == "run"] == [0] * 6
    names = {line["name"] for line in lines}
    # Products by shape, SlimPack's step and what stands beside it.
    assert {"copy", "products tiny: gate and up", "tiny: slimpack, FlashAttention-2",
            "tiny: Hugging Face", "tiny: Hugging Face, tuned", "cuDNN dense D=16, one of 8K"} <= names
    assert sum(name.startswith("tiny: operator ") for name in names) == 40
    assert "| copy | tb_per_s" in (tmp_path / "page.md").read_text()


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
def test_without_a_gpu_it_says_what_would_run(tmp_path):
    done = subprocess.run([sys.executable, FOLDER / "run.py", "--out", tmp_path / "new"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not (tmp_path / "new").exists()
    assert "There is no CUDA device here." in done.stdout
    assert "steps rivals 8B stack, 128K" in done.stdout


def test_a_part_that_hangs_or_crashes_costs_itself_alone(tmp_path):
    its = run.Run(options_of(tmp_path))
    code = {"hangs": "import time; time.sleep(60)", "crashes": "import os; os.abort()", "ends": ""}
    for name, text in code.items():
        its.do(run.Step(name, 5, [sys.executable, "-c", text]))
    its.do(run.Step("is not there", 5, [tmp_path / "nothing"]))
    lines = {line["name"]: line for line in lines_of(tmp_path)}
    assert lines["hangs"]["status"] == "limit" and 5 <= lines["hangs"]["seconds"] < 15
    assert lines["crashes"]["status"] == -6 and lines["ends"]["status"] == 0
    summary = page.summary_of(list(lines.values()))
    assert [line.split(":")[0] for line in summary.splitlines()] == [
        "0 of 0 checks good", "FAILED hangs", "FAILED crashes", "FAILED is not there"]


def test_nothing_starts_when_the_time_is_over(tmp_path):
    its = run.Run(options_of(tmp_path, seconds=3))
    its.do(run.Step("late", 60, [sys.executable, "-c", ""]))
    assert lines_of(tmp_path) == [{"part": "run", "name": "late", "skipped": "out of time"}]


def test_figures_stand_beside_what_was_expected_and_bad_ones_come_first():
    lines = [{"part": "machine", "name": "copy", "tb_per_s": 2.1, "expected": "3.0", "good": False},
             {"part": "machine", "name": "product", "tflops": 760.0, "good": True}]
    assert page.summary_of(lines).splitlines() == ["1 of 2 checks good",
                                                   "BAD copy: tb_per_s 2.1 (3.0)"]
    assert "| copy | tb_per_s 2.1 | 3.0 |" in page.page_of(lines)


def test_the_bundle_has_what_the_build_needs(tmp_path):
    import bundle

    out = tmp_path / "bundle"
    bundle.copy_sources(out / "source")
    missing = bundle.copy_prefix(out / "prefix")
    assert (out / "source" / "bench" / "gpu_run" / "run.py").read_text() == (
        FOLDER / "run.py").read_text()
    assert missing == []
    for name in ("fmt/format.h", "CLI/CLI.hpp", "nlohmann/json.hpp", "toml++/toml.h", "xxhash.h"):
        assert (out / "prefix" / "include" / name).exists()
    assert next((out / "prefix").rglob("libhighs.so.1")).stat().st_size > 1 << 20
