"""slimpack doctor: what runs on a machine, as far as its parts can be pretended."""

import json
import os
import subprocess
import sys

import pytest
import torch
from program import BUILD, SLIMPACK

from slimpack import doctor


def run(*arguments, **environment):
    return subprocess.run([SLIMPACK, "doctor", *arguments], env={**os.environ, **environment}, capture_output=True,
                          text=True, timeout=120, check=False)


def machine(**changes):
    """Returns what doctor.found() finds on a machine that lacks nothing but what `changes` say."""
    return {"system": "Linux", "GPUs": ["NVIDIA H100, 81559 MiB"], "Python": "3.11", "torch": "2.13.0+cu130",
            **dict.fromkeys(doctor.LIBRARIES, "1.0"), "g++": "12.2.0", "nvcc": "13.0",
            "FlashAttention-4": None, **changes}


def by_name(things):
    return {row.what: row for row in doctor.abilities(things)}


def test_the_program_says_what_runs_here(tmp_path):
    done = run("--json", str(tmp_path / "found.json"))
    assert (done.returncode, done.stderr) == (0, "")
    figures = json.loads((tmp_path / "found.json").read_text())
    assert figures["found"]["torch"] == torch.__version__
    rows = {row["what"]: row for row in figures["abilities"]}
    assert rows["plan, compare, layout, fit, sweep"]["runs"]
    assert rows["train, profile, validate (PackFlow)"]["runs"]  # it is built for the torch that is here
    assert rows["PackFlow's CUDA kernels"]["runs"] == (torch.cuda.is_available() and bool(doctor.gpus()))
    lines = done.stdout.splitlines()
    assert len(lines) <= 30 and all(len(line) <= 80 for line in lines if str(BUILD) not in line)
    assert all(any(line.startswith(what) for line in lines) for what in rows)


def test_json_alone_goes_to_standard_output():
    done = run("--json", "-")
    assert set(json.loads(done.stdout)) == {"built", "found", "abilities"}


def test_a_file_that_cannot_be_written_is_one_line(tmp_path):
    done = run("--json", str(tmp_path / "missing" / "found.json"))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "found.json" in done.stderr


def test_without_torch_planning_runs_alone(monkeypatch):
    monkeypatch.setattr(doctor.runtime.importlib.util, "find_spec", lambda package: None)
    rows = by_name(machine(torch=None, GPUs=[]))
    assert rows["plan, compare, layout, fit, sweep"].runs
    for what in ("train any Hugging Face decoder", "train, profile, validate (PackFlow)", "adapters (LoRA)"):
        assert not rows[what].runs and "pip install" in rows[what].detail


@pytest.mark.parametrize("torch_here, runs", [("2.9.1", False), ("2.10.0", True), ("2.13.0+cu130", True)])
def test_the_oldest_torch_is_named(torch_here, runs):
    """2.10 is the oldest that the runtime for any decoder runs on: 2.8 has no Tensor.grad_dtype."""
    row = by_name(machine(torch=torch_here))["train any Hugging Face decoder"]
    assert row.runs == runs and (runs or "torch>=2.10" in row.detail)


def test_a_torch_without_cuda_leaves_gpus_unused(monkeypatch):
    monkeypatch.setattr(doctor.runtime.packflow_build(), "CUDA_KERNELS", "sm_90a")
    rows = by_name(machine(torch="2.13.0+cpu"))
    assert "knows no CUDA" in rows["train any Hugging Face decoder"].detail
    assert not rows["PackFlow's CUDA kernels"].runs
    assert by_name(machine())["PackFlow's CUDA kernels"].runs


def test_gpus_are_those_that_the_driver_lists(tmp_path, monkeypatch):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA H100 80GB HBM3, 81559 MiB'\necho 'NVIDIA H100 80GB HBM3, 81559 MiB'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor.gpus() == ["NVIDIA H100 80GB HBM3, 81559 MiB"] * 2
    tool.write_text("#!/bin/sh\necho 'No devices were found'\nexit 6\n")
    assert doctor.gpus() == []


def test_the_module_runs_by_itself():
    done = subprocess.run([sys.executable, "-m", "slimpack.doctor", "--jso"], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(BUILD / "python")}, timeout=120, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and "did you mean '--json'" in done.stderr
