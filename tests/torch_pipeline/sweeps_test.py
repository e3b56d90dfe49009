"""The sequence of sweeps that replicas agree on: replicas of a stage make the same ones, and ranks that run
their parts of it, where each sweep waits for its whole group, come to the end."""

import random

import pytest
from slimpack.torch.pipeline.sweeps import BOTH, DOWN, UP, Pass, agreed_sweeps


def passes_of(rng, stages, replicas, keeps):
    """By rank the passes of 1F1B, of random numbers of MicroPacks. keeps: by replica whether it keeps
    graphs."""
    found = []
    for replica in range(replicas):
        packs = rng.randint(0, 6)
        for stage in range(stages):
            rank, warm_up = replica * stages + stage, min(packs, stages - stage)
            order = [("F", k) for k in range(warm_up)]
            for k in range(packs):
                order += [("B", k)] + [("F", k + warm_up)] * (k + warm_up < packs)
            idle_forward = stage == stages - 1 and not keeps[replica]
            found.append([
                Pass("F", k, None if idle_forward and rng.random() < 0.5 else UP, (rank - 1,) if stage else ())
                if passes == "F" else
                Pass("B", k, DOWN if keeps[replica] else BOTH, (rank + 1,) if stage < stages - 1 else ())
                for passes, k in order])
    return found


def merged(passes, idle):
    """A rank's (sweep, its Pass or None for an idle one), in order."""
    found = [(sweep, None) for sweep in idle[0]]
    for own, after in zip(passes, idle[1:], strict=True):
        found += [(own.sweep, own), *((sweep, None) for sweep in after)]
    return found


def run(sequences, stages):
    """Runs what all ranks have to do as far as it goes; by rank what is left. A pass runs when its inputs
    are made, a sweep when all ranks of the stage run one."""
    left, made = [list(reversed(one)) for one in sequences], set()

    def able(rank):
        if not left[rank]:
            return False
        _, own = left[rank][-1]
        return own is None or all((other, own.passes, own.number) in made for other in own.needs)

    def end(rank):
        _, own = left[rank].pop()
        if own is not None:
            made.add((rank, own.passes, own.number))

    moved = True
    while moved:
        moved = False
        for group in (range(stage, len(left), stages) for stage in range(stages)):
            for rank in group:
                while able(rank) and left[rank][-1][0] is None:
                    end(rank)
                    moved = True
            if all(able(rank) and left[rank][-1][0] for rank in group):
                for rank in group:
                    end(rank)
                moved = True
    return [one for one in left if one]


@pytest.mark.parametrize("seed", range(60))
def test_replicas_make_the_same_sweeps_and_never_wait_in_a_circle(seed):
    rng = random.Random(seed)
    stages, replicas = rng.randint(1, 4), rng.randint(1, 4)
    passes = passes_of(rng, stages, replicas, [rng.random() < 0.5 for _ in range(replicas)])
    sequences = [merged(*both) for both in zip(passes, agreed_sweeps(passes, stages), strict=True)]
    for stage in range(stages):
        made = [[sweep for sweep, _ in one if sweep] for one in sequences[stage::stages]]
        assert all(one == made[0] for one in made)
    assert run(sequences, stages) == []
    for one in sequences:
        graphs = 0
        for sweep, own in one:
            graphs += 0 if own else {UP: 1, DOWN: -1, BOTH: 0}[sweep]
            assert graphs >= 0  # an idle backward has a graph


def test_replicas_that_want_the_same_run_no_idle_sweep():
    alike = [Pass("F", 0, UP), Pass("B", 0, DOWN), Pass("F", 1, UP), Pass("B", 1, BOTH)]
    assert agreed_sweeps([alike] * 3, 1) == [[[]] * 5] * 3


def test_a_replica_without_a_sequence_runs_along():
    assert agreed_sweeps([[Pass("F", 0, UP), Pass("B", 0, DOWN)], []], 1) == [[[], [], []], [[UP, DOWN]]]
