"""Steps of a pipeline end on the stand-in for NCCL, with the bits that they have over Gloo."""

import datetime
import itertools
import os

import blocking
import pytest
from blocking_steps import step_on_both
from ranks import run

PATIENCE = datetime.timedelta(seconds=30)  # after which what blocks hangs
CASES = [  # way, calls that synchronise, stages, replicas, seed
    ("lazy", "none", 2, 1, 3), ("lazy", "first", 4, 1, 6), ("eager", "every", 4, 1, 6),
    ("eager", "none", 4, 1, 6), ("eager", "first", 2, 2, 8),
]
if os.environ.get("SLIMPACK_GRID") == "all":
    CASES = [(way, calls, *grid, seed) for way, calls, grid, seed in itertools.product(
        blocking.WAYS, blocking.SYNCHRONISING, [(2, 1), (3, 1), (4, 1), (2, 2)], [3, 6, 8])]


@pytest.mark.parametrize(("way", "synchronising", "stages", "replicas", "seed"), CASES)
def test_a_step_ends_with_the_same_bits(way, synchronising, stages, replicas, seed):
    settings = dict(stages=stages, replicas=replicas, kind="sliced")
    said = run(stages * replicas, step_on_both, PATIENCE, way, synchronising, seed,
               settings)
    assert said == ["ended"] * len(said), said
