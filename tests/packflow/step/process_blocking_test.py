"""Random steps with merged MicroPacks and split backwards end on the stand-in for NCCL, with the
bits of threads."""

import os

import pytest
import torch
from driver import BUILD, run_driver, write_step
from gradients_test import random_grid
from hugging_face import make_model
from process_gradients_test import WORKER
from processes import job
from safetensors.torch import load_file

PATIENCE = 60  # seconds after which what blocks hangs
CASES = [("lazy", "every", (1, 2, 1), 0), ("eager", "every", (2, 2, 1), 0)]
if os.environ.get("SLIMPACK_GRID") == "all":
    GRIDS = [(1, 2, 1), (1, 1, 2), (2, 1, 1), (2, 2, 1), (4, 1, 1), (2, 1, 2), (4, 2, 1), (2, 2, 2)]
    CASES = [(way, synchronising, grid, seed) for way, synchronising in
             [("lazy", "none"), ("lazy", "every"), ("eager", "none"), ("eager", "every")]
             for grid in GRIDS for seed in (0, 1)]


@pytest.mark.parametrize(("way", "synchronising", "grid", "seed"), CASES)
def test_processes_end_with_the_bits_of_threads(way, synchronising, grid, seed, tmp_path,
                                                monkeypatch):
    monkeypatch.setenv("SLIMPACK_BUILD", str(BUILD))
    family, sizes, sequences, plan = random_grid(1200 + seed, [grid])
    model = make_model(family, seed, torch.float64, **sizes)
    write_step(tmp_path / "step", model, sequences, plan, "fp64", steps=2)
    command = [WORKER, f"{way},{synchronising},{PATIENCE}",
               tmp_path / "step" / "step.json"]
    ranks = grid[0] * grid[1] * grid[2]
    with job(tmp_path, *[command] * ranks) as processes:
        codes, said = processes.codes(), processes.text()
    assert not any(codes), said
    found = load_file(tmp_path / "step" / "out.safetensors")
    threads = run_driver(tmp_path / "threads", model, sequences, plan, "fp64", steps=2)
    assert found.keys() == threads.keys()
    assert all(torch.equal(found[name], threads[name]) for name in threads)
