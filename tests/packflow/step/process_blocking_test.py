"""Random steps with merged MicroPacks and split backwards end on the stand-in for NCCL, with the
bits of threads; a step whose receives are posted in the old order hangs on it."""

import os

import pytest
import torch
from driver import BUILD, run_driver, write_step
from forking import forked_job
from gradients_test import random_case, random_grid, with_stages_per_rank, with_zones
from hugging_face import make_model
from process_gradients_test import WORKER
from safetensors.torch import load_file

PATIENCE = 60  # seconds after which what blocks hangs
HANGS = 5  # seconds after which what is known to block hangs
PARTS = {  # what a plan may have beside its grid, and the stages of a rank
    "plain": ({}, 1),
    "ring": ({}, 2),
    "vocabulary": ({"spread_vocabulary": True}, 2),
    "exchange": ({"exchange_context": True}, 1),
    "zones": ({}, 1),  # of replicas; routed over nodes of two
    "collectives": ({"same_bits": False}, 1),  # of the backend, for gradients of replicas
}
CASES = [("lazy", "every", (1, 2, 1), 0, "plain"), ("eager", "every", (2, 2, 1), 0, "plain"),
         ("lazy", "none", (3, 1, 1), 0, "plain"), ("eager", "every", (3, 1, 2), 0, "plain"),
         ("eager", "every", (2, 1, 1), 0, "ring"), ("eager", "every", (2, 1, 2), 0, "vocabulary"),
         ("eager", "every", (3, 1, 1), 0, "exchange"), ("eager", "every", (1, 4, 1), 0, "zones"),
         ("lazy", "every", (2, 2, 1), 0, "collectives"), ("eager", "every", (1, 3, 1), 0, "collectives")]
if os.environ.get("SLIMPACK_GRID") == "all":
    GRIDS = [(1, 2, 1), (1, 1, 2), (2, 1, 1), (3, 1, 1), (2, 2, 1), (4, 1, 1), (2, 1, 2), (3, 2, 1),
             (3, 1, 2), (4, 2, 1), (4, 1, 2), (2, 2, 2)]
    CASES = [(way, synchronising, grid, seed, part) for way, synchronising in
             [("lazy", "none"), ("lazy", "every"), ("eager", "none"), ("eager", "every")]
             for grid in GRIDS for seed in (0, 1) for part in PARTS
             if part == "plain" or grid[1 if part in ("zones", "collectives") else 0] > 1]


def case_of(seed, grid, part):
    """Arguments of write_step: a random step of the grid whose plan has the part."""
    settings, stages = PARTS[part]
    case = random_grid(1200 + seed, [grid])
    family, sizes, sequences, plan = with_stages_per_rank(case, stages) if stages > 1 else case
    plan.update(settings)
    if part == "exchange":  # of several long documents some slice runs beside another one's prefix
        sequences += [[(7 * s + t) % sizes["vocab_size"] for t in range(n)]
                      for s, n in enumerate((120, 90, 150, 70))]
    if part == "zones":
        with_zones(plan, seed)
        plan.update(ranks_per_node=2, route=True)
    return family, sizes, sequences, plan


def run_ranks(folder, way, synchronising, patience, ranks):
    """Runs the folder's step with a process for each rank; exit codes and what they said."""
    command = [WORKER, f"{way},{synchronising},{patience}", folder / "step.json"]
    with forked_job(folder, *[command] * ranks) as processes:
        return processes.codes(), processes.text()


@pytest.mark.parametrize(("way", "synchronising", "grid", "seed", "part"), CASES)
def test_processes_end_with_what_threads_compute(way, synchronising, grid, seed, part, tmp_path,
                                                monkeypatch):
    monkeypatch.setenv("SLIMPACK_BUILD", str(BUILD))
    family, sizes, sequences, plan = case_of(seed, grid, part)
    model = make_model(family, seed, torch.float64, **sizes)
    write_step(tmp_path / "step", model, sequences, plan, "fp64", steps=2)
    codes, said = run_ranks(tmp_path / "step", way, synchronising, PATIENCE,
                            grid[0] * grid[1] * grid[2])
    assert not any(codes), said
    found = load_file(tmp_path / "step" / "out.safetensors")
    threads = run_driver(tmp_path / "threads", model, sequences, plan, "fp64", steps=2)
    assert found.keys() == threads.keys()
    for name, expected in threads.items():
        if part == "collectives":  # sums have another order
            torch.testing.assert_close(found[name], expected, rtol=1e-7, atol=1e-9, msg=name)
        else:
            assert torch.equal(found[name], expected), name


def old_order(stages):
    """Arguments of write_step for a step whose ranks post all receives before their first action: four
    documents in four MicroPacks, fewer than may be on their way."""
    family, sizes, _, plan = random_case(1200)
    plan.update(pp=stages, dp=1, tp=1, planner="packed", capacity=20, post_ahead=True)
    sequences = [[(7 * s + t) % sizes["vocab_size"] for t in range(20)] for s in range(4)]
    return make_model(family, 1, torch.float64, **sizes), sequences, plan


@pytest.mark.parametrize("stages", [2, 3])
def test_the_check_refuses_receives_that_are_posted_ahead(stages, tmp_path):
    refusal = "deadlock: replica 0 waits on stage 0 with .* for the receive of B0, which has not"
    with pytest.raises(AssertionError, match=refusal):
        run_driver(tmp_path, *old_order(stages), "fp64")


@pytest.mark.parametrize(("way", "synchronising", "stages", "hangs"), [
    ("forgetful", "none", 2, True),  # where nobody has connected, each waits for the other
    ("eager", "first", 2, True),  # a device that synchronises waits for receives of what is to come
    ("eager", "every", 3, True),
    ("eager", "none", 3, False),  # what connects beforehand and never synchronises gets through
    ("lazy", "none", 2, False),  # which also makes the communicators
])
def test_what_the_check_refuses_hangs(way, synchronising, stages, hangs, tmp_path, monkeypatch):
    monkeypatch.setenv("SLIMPACK_BUILD", str(BUILD))
    model, sequences, plan = old_order(stages)
    plan["unchecked"] = True
    write_step(tmp_path / "step", model, sequences, plan, "fp64")
    codes, said = run_ranks(tmp_path / "step", way, synchronising, HANGS if hangs else PATIENCE,
                            stages)
    assert any(codes) == hangs, said
    assert ("hang: " in said) == hangs, said
    # Nothing else is wrong with it: among threads, whose receives hold nobody up, it ends.
    assert run_driver(tmp_path / "threads", model, sequences, plan, "fp64")
