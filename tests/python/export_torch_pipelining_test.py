"""Schedules as CSV: torch.distributed.pipelining loads them, runs them, and gets the same
gradients."""

import re

import numpy as np
import pytest
import slimpack
import torch
from ranks import run
from slimpack.export import torch_pipelining
from torch import distributed, nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

ROOM = {"memory_cap": "none"}
WIDTH = 8  # of the tiny model


def planned(lengths, stages=2, replicas=1, **options):
    job = slimpack.Job("demo", {"pp": stages, "dp": replicas}, "h100", **{**ROOM, **options})
    return job.plan(lengths)


def packed(stages=2):
    lengths = np.random.default_rng(1).integers(20, 400, 25)
    return planned(lengths, stages, context=512, planner="packed")


def sliced(**options):
    """A plan of our search that slices, and whose backward MicroPacks are its forward ones."""
    job = slimpack.Job("llama-3-8b", {"pp": 2, "tp": 2}, "h100", granularity=1024,
                       **ROOM, **options)
    return job.plan([4096] * 2)


def symmetric():
    """Long sequences among short ones, most of them in slices."""
    lengths = np.random.default_rng(2).integers(1, 60, 20).tolist() + [900, 400]
    return planned(lengths, granularity=16, cuts="symmetric")


PLANS = {"packed": packed, "sliced": sliced, "split": lambda: sliced(backward="split"),
         "symmetric": symmetric}


def cells(text):
    return [line.split(",") for line in text.splitlines()]


def identity(micro_batch):
    return sorted(micro_batch)


@pytest.mark.parametrize("make", PLANS.values(), ids=PLANS.keys())
def test_every_action_of_the_plan_is_in_its_row(make):
    step = make()
    micro_batches = torch_pipelining.micro_batches(step)
    packs = {"F": step.replicas[0].forward, "B": step.replicas[0].backward}
    for row, line in zip(cells(torch_pipelining.schedule_csv(step)), step.schedule(0), strict=True):
        kept = [cell for cell in row if cell]
        assert len(kept) == len(line) == len(set(kept))
        for cell, action in zip(kept, line, strict=True):  # the same slices under another number
            (stage, kind, k), (stage_of, kind_of, pack) = (
                re.fullmatch(r"(\d+)([FBIW])(\d+)", text).groups() for text in (cell, action))
            assert (stage, kind) == (stage_of, kind_of)
            pack = packs["F" if kind == "F" else "B"][int(pack)]
            assert identity(micro_batches[int(k)]) == sorted(
                zip(pack.sequences, pack.begin, pack.end, strict=True))


def test_sliced_micro_batches_hold_every_token_once():
    step = sliced()
    covered = [np.zeros(length, dtype=int) for length in step.lengths]
    micro_batches = torch_pipelining.micro_batches(step)
    for sequence, begin, end in (part for parts in micro_batches for part in parts):
        covered[sequence][begin:end] += 1
    assert all((tokens == 1).all() for tokens in covered)
    assert any(begin > 0 for parts in micro_batches for _, begin, _ in parts)


def test_columns_are_ticks():
    grid = cells(torch_pipelining.schedule_csv(packed(stages=4)))
    assert len({len(row) for row in grid}) == 1
    at = {cell: tick for row in grid for tick, cell in enumerate(row) if cell}
    for cell, tick in at.items():
        stage, kind, k = re.fullmatch(r"(\d+)([FB])(\d+)", cell).groups()
        before = f"{int(stage) + (1 if kind == 'B' else -1)}{kind}{k}"
        assert at.get(before, -1) < tick
        assert kind == "F" or at[f"{stage}F{k}"] < tick


def test_replicas_have_schedules_of_their_own():
    step = planned([300, 200, 200], replicas=2, planner="packed", context=300)
    counts = [len(torch_pipelining.micro_batches(step, r)) for r in range(2)]
    assert sorted(counts) == [1, 2]
    assert [torch_pipelining.schedule_csv(step, r).count("1F") for r in range(2)] == counts
    with pytest.raises(IndexError):
        torch_pipelining.schedule_csv(step, 2)


def test_what_torch_has_no_form_for_is_refused():
    asymmetric = slimpack.Job("llama-3-8b", {"pp": 4}, "h100",
                              memory_cap="none").plan([8192, 5000, 300, 500])
    with pytest.raises(slimpack.InvalidInput, match=r"backward MicroPack \d+ of replica 0 holds "
                       r"other slices than every forward one.*cuts=\"symmetric\""):
        torch_pipelining.schedule_csv(asymmetric)
    merged = slimpack.Job("llama-3-8b", {"pp": 2, "dp": 2}, "h100", most_merged=2,
                          memory_cap="none").plan([8192, 100, 100])
    assert any(pack.replicas == 2 for pack in merged.replicas[0].forward)
    with pytest.raises(slimpack.InvalidInput, match=r"is shared by 2 replicas.*most_merged=1"):
        torch_pipelining.schedule_csv(merged)
    spread = slimpack.Job("llama-3-8b", {"pp": 2, "spread_vocabulary": True}, "h100",
                          memory_cap="none").plan([8192, 100, 100])
    with pytest.raises(slimpack.InvalidInput, match=r"spreads the vocabulary.*= false"):
        torch_pipelining.schedule_csv(spread)
    alone = planned([100], replicas=2, planner="packed")
    with pytest.raises(slimpack.InvalidInput, match=r"replica 1 has no sequences.*as many"):
        torch_pipelining.schedule_csv(alone, 1)


def test_context_exchanges_are_left_out():
    step = slimpack.Job("llama-3.1-8b", {"pp": 4, "exchange_context": True}, "h100", memory_cap="none",
                        cuts="symmetric", context=131072).plan([131072])
    actions = {action for line in step.schedule() for action in line}
    assert len(step.schedule()) == 4 and step.exchanges()
    for giver, taker, keys in step.exchanges():
        assert {giver, taker} <= actions and keys > 0
    assert ">" not in torch_pipelining.schedule_csv(step)
    without = slimpack.Job("llama-3.1-8b", {"pp": 4}, "h100", memory_cap="none", cuts="symmetric",
                           context=131072).plan([131072])
    assert without.exchanges() == [] and step.makespan <= without.makespan


def test_symmetric_cuts_of_every_replica_are_taken():
    lengths = np.random.default_rng(3).integers(20, 500, 60).tolist() + [8192]
    step = slimpack.plan(lengths, "llama-3-8b", {"pp": 4, "dp": 2, "tp": 2}, "h100", **ROOM,
                         cuts="symmetric", most_merged=1)
    sequences, sliced_into = [], 0
    for replica in range(2):
        parts = [part for parts in torch_pipelining.micro_batches(step, replica) for part in parts]
        actions = [cell for row in cells(torch_pipelining.schedule_csv(step, replica))
                   for cell in row if cell]
        count = len(torch_pipelining.micro_batches(step, replica))
        assert len(actions) == len(set(actions)) == 4 * 2 * count  # each stage, both passes
        assert {sequence for sequence, begin, _ in parts if begin > 0} <= {60}  # the long one
        sequences += [sequence for sequence, begin, _ in parts if begin == 0]
        sliced_into += sum(sequence == 60 for sequence, _, _ in parts)
    assert sorted(sequences) == list(range(61)) and sliced_into > 1


def stage_module(stage):
    torch.manual_seed(stage)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH)).double()


def batch(micro_batches):
    """Rows of all micro-batches, each padded to the longest one; padding has no weight."""
    longest = max(sum(end - begin for _, begin, end in parts) for parts in micro_batches)
    rows = torch.zeros(len(micro_batches), longest, WIDTH, dtype=torch.float64)
    weight = torch.zeros(len(micro_batches), longest, dtype=torch.float64)
    for k, parts in enumerate(micro_batches):
        generators = [torch.Generator().manual_seed(sequence) for sequence, _, _ in parts]
        tokens = [torch.randn(end, WIDTH, generator=generator, dtype=torch.float64)[begin:]
                  for (_, begin, end), generator in zip(parts, generators, strict=True)]
        tokens = torch.cat(tokens)
        rows[k, :len(tokens)], weight[k, :len(tokens)] = tokens, 1
    return rows, weight


def summed_loss(output, weight):
    return (output.square().sum(-1) * weight).sum()


def run_stage(cases):
    """By case this stage's loss and gradients: what a user of torch.distributed.pipelining
    writes."""
    stage, stages = distributed.get_rank(), distributed.get_world_size()
    found = {}
    for name, (csv, micro_batches) in cases.items():
        module = stage_module(stage)
        runtime = _PipelineScheduleRuntime(
            [PipelineStage(module, stage, stages, torch.device("cpu"))], len(micro_batches),
            loss_fn=summed_loss, scale_grads=False)
        runtime._load_csv(csv)
        rows, weight = batch(micro_batches)
        losses = []
        if stage == 0:
            runtime.step(rows, losses=losses, return_outputs=False)
        else:
            runtime.step(target=weight, losses=losses, return_outputs=False)
        grads = [parameter.grad.tolist() for parameter in module.parameters()]
        found[name] = sum(loss.item() for loss in losses), grads
    return found


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """By case: its loss, and by stage its gradients."""
    folder, cases = tmp_path_factory.mktemp("schedules"), {}
    for name, make in PLANS.items():
        step, csv = make(), folder / f"{name}.csv"
        csv.write_text(torch_pipelining.schedule_csv(step))
        cases[name] = csv, [[tuple(part) for part in parts]
                            for parts in torch_pipelining.micro_batches(step)]
    found = run(2, run_stage, cases)
    return {name: (sum(of_stage[name][0] for of_stage in found),
                   [of_stage[name][1] for of_stage in found]) for name in cases}


@pytest.mark.parametrize("name", PLANS)
def test_torch_runs_the_schedule_with_the_gradients_of_no_pipeline(name, ran):
    loss, grads = ran[name]
    lengths = PLANS[name]().lengths
    modules = [stage_module(stage) for stage in range(2)]
    rows, weight = batch([[(sequence, 0, int(length)) for sequence, length in enumerate(lengths)]])
    expected = summed_loss(modules[1](modules[0](rows)), weight)
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-12)
    for module, of_stage in zip(modules, grads, strict=True):
        for parameter, grad in zip(module.parameters(), of_stage, strict=True):
            torch.testing.assert_close(torch.tensor(grad, dtype=torch.float64), parameter.grad,
                                       rtol=1e-11, atol=1e-11)
