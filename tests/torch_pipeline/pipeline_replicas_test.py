"""Replicas of a pipeline, with whole and with shared-out weights: weights after some steps of AdamW
with clipped gradients are those of plain training."""

import pytest
from ranks import run
from replicated_ranks import differences

BOUND = 1e-9
MAX_NORM = 0.1
FAMILIES = {"llama": "sliced", "gemma2": "symmetric", "qwen3_moe": "sliced",
            "olmo_hybrid": "sliced"}  # kinds of plans


@pytest.fixture(name="ran", scope="module")
def fixture_ran():
    """By whether weights are shared out and by rank: what differs from plain training, by
    family."""
    return {sharded: run(4, differences, FAMILIES, 3, MAX_NORM, sharded)
            for sharded in (False, True)}


@pytest.mark.cases
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("sharded", [False, True], ids=["whole", "sharded"])
def test_replicas_have_the_weights_of_plain_training(ran, family, sharded):
    for rank, of_families in enumerate(ran[sharded]):
        found = of_families[family]
        assert min(found.norms) > MAX_NORM  # all were clipped
        assert found.of_weights <= BOUND and found.of_norms <= BOUND, (rank, found)


def test_sharded_replicas_share_the_weights_out(ran):
    kept, shares = ([found["llama"].kept for found in ran[sharded]] for sharded in (False, True))
    assert kept[:2] == kept[2:]
    assert [a + b for a, b in zip(shares[:2], shares[2:], strict=True)] == kept[:2]
    assert max(share / whole for share, whole in zip(shares, kept, strict=True)) < 0.51
