"""Steps whose ranks are processes give the bits of those whose ranks are threads, and the gradients
of Hugging Face with autograd."""

from pathlib import Path

import pytest
import torch
from driver import BUILD, run_driver, write_step
from experts_test import with_experts
from forking import forked_job
from gradients_test import assert_same_gradients, random_grid, with_stages_per_rank, with_zones
from hugging_face import loss_and_backward, make_model, use_fp64_casts
from safetensors.torch import load_file

WORKER = Path(__file__).with_name("process_worker.py")
GRIDS = {2: [(2, 1, 1), (1, 2, 1), (1, 1, 2)],
         4: [(4, 1, 1), (2, 2, 1), (1, 4, 1), (2, 1, 2), (1, 2, 2), (1, 1, 4)],
         8: [(2, 2, 2), (4, 2, 1), (1, 8, 1), (2, 4, 1)]}


PARTS = 4


def cases_of(ranks, part):
    """Each grid with a stage on every rank, with random orders, and as a ring with two or three; every
    second ring of two turns back instead. Each part has every fourth of these cases."""
    rings = [(grid, 2 + i % 2) for i, grid in enumerate(GRIDS[ranks]) if grid[0] > 1]
    for i, (grid, stages) in enumerate([(grid, 1) for grid in 2 * GRIDS[ranks]] + rings + rings):
        if i % PARTS != part:
            continue
        case = random_grid(900 + 20 * ranks + i, [grid])
        family, sizes, sequences, plan = with_stages_per_rank(case, stages) if stages > 1 else case
        plan["spread_vocabulary"] = i >= 2 * len(GRIDS[ranks]) + len(rings)
        plan["exchange_context"] = i % 2 == 1
        plan["turns_back"] = stages == 2 and not (plan["spread_vocabulary"] or plan["exchange_context"])
        plan["ranks_per_node"] = (0, 2, 4)[i % 3]  # 0: one node
        if i >= len(GRIDS[ranks]) and plan["dp"] > 1:
            with_zones(plan, i)
            plan["route"] = plan["ranks_per_node"] > 0
        yield use_fp64_casts(make_model(family, i, torch.float64, **sizes)), sequences, plan


def assert_processes_give_the_bits_of_threads(given, ranks, tmp_path):
    """Their gradients are autograd's, too. given: (model, sequences, plan) of each case."""
    cases = []
    for i, (model, sequences, plan) in enumerate(given):
        folder = tmp_path / str(i)
        cases.append((model, sequences, plan, folder))
        write_step(folder, model, sequences, plan, "fp64", steps=2)
    files = [folder / "step.json" for *_, folder in cases]
    with forked_job(tmp_path, *[[WORKER, "gloo", *files]] * ranks) as processes:
        assert processes.codes() == [0] * ranks, processes.text()
    for model, sequences, plan, folder in cases:
        out = load_file(folder / "out.safetensors")
        assert_same_gradients(out, model, loss_and_backward(model, sequences), 1e-9)
        threads = run_driver(folder / "threads", model, sequences, plan, "fp64", steps=2)
        assert out.keys() == threads.keys()
        for name, tensor in threads.items():
            assert torch.equal(out[name], tensor), (plan, name)


@pytest.mark.parametrize("seed", range(PARTS))
@pytest.mark.parametrize("ranks", GRIDS)
def test_processes_give_the_bits_of_threads_and_the_gradients_of_autograd(ranks, seed, tmp_path,
                                                                          monkeypatch):
    monkeypatch.setenv("SLIMPACK_BUILD", str(BUILD))
    assert_processes_give_the_bits_of_threads(cases_of(ranks, seed), ranks, tmp_path)


@pytest.mark.parametrize("ranks, grids", [(2, [(2, 1, 1), (1, 2, 1)]), (4, [(2, 2, 1), (1, 4, 1), (4, 1, 1)])])
def test_processes_with_experts_give_the_bits_of_threads_and_the_gradients_of_autograd(ranks, grids, tmp_path,
                                                                                       monkeypatch):
    monkeypatch.setenv("SLIMPACK_BUILD", str(BUILD))
    cases = []
    for seed, grid in enumerate(2 * grids, start=980 + 10 * ranks):
        family, sizes, sequences, plan = with_experts(random_grid(seed, [grid]), seed)
        if plan["dp"] > 1 and seed % 2:
            with_zones(plan, seed)
        cases.append((use_fp64_casts(make_model(family, seed, torch.float64, **sizes)), sequences, plan))
    assert_processes_give_the_bits_of_threads(cases, ranks, tmp_path)


def test_collectives_of_the_backend_give_what_messages_give_but_for_rounding(tmp_path, monkeypatch):
    """The cases are replicas that share all buckets, replicas that sum in their node first, and two
    stages."""
    monkeypatch.setenv("SLIMPACK_BUILD", str(BUILD))
    cases = []
    for seed, (grid, ranks_per_node) in enumerate([((1, 2, 2), 0), ((1, 4, 1), 2), ((2, 2, 1), 0)]):
        cases.append(random_grid(970 + seed, [grid]))
        cases[-1][3].update(same_bits=False, ranks_per_node=ranks_per_node)
    models = [make_model(family, 1, torch.float64, **sizes) for family, sizes, *_ in cases]
    for i, ((*_, sequences, plan), model) in enumerate(zip(cases, models, strict=True)):
        write_step(tmp_path / str(i), model, sequences, plan, "fp64", steps=2)
    files = [tmp_path / str(i) / "step.json" for i in range(len(cases))]
    with forked_job(tmp_path, *[[WORKER, "gloo", *files]] * 4) as processes:
        assert processes.codes() == [0] * 4, processes.text()
    for i, ((*_, sequences, plan), model) in enumerate(zip(cases, models, strict=True)):
        out = load_file(tmp_path / str(i) / "out.safetensors")
        threads = run_driver(tmp_path / f"threads{i}", model, sequences, plan, "fp64", steps=2)
        assert out.keys() == threads.keys()
        for name, tensor in threads.items():
            # AdamW divides by √v: a rounding of a gradient near zero grows.
            torch.testing.assert_close(out[name], tensor, rtol=1e-7, atol=1e-9, msg=f"{plan}: {name}")
