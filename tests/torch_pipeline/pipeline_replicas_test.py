"""Replicas of a pipeline, with whole and with shared-out weights, gathered once a step or in every pass:
weights after some steps of AdamW with clipped gradients are those of plain training."""

import pytest
from ranks import run
from replicated_ranks import REPLICATION, differences, of_idle_replicas

BOUND = 1e-9
MAX_NORM = 0.1
FAMILIES = {"llama": "sliced", "gemma2": "symmetric", "qwen3_moe": "sliced",
            "olmo_hybrid": "sliced"}  # kinds of plans


@pytest.fixture(name="ran", scope="module")
def fixture_ran():
    """By replication and by rank: what differs from plain training, by family."""
    return {replication: run(4, differences, FAMILIES, 3, MAX_NORM, replication)
            for replication in REPLICATION}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("replication", REPLICATION)
def test_replicas_have_the_weights_of_plain_training(ran, family, replication):
    for rank, of_families in enumerate(ran[replication]):
        found = of_families[family]
        assert min(found.norms) > MAX_NORM  # all were clipped
        assert found.of_weights <= BOUND and found.of_norms <= BOUND, (rank, found)


@pytest.mark.parametrize("replication", ["sharded", "resharded"])
def test_sharded_replicas_share_the_weights_out(ran, replication):
    kept, shares = ([found["llama"].kept for found in ran[of]] for of in ("whole", replication))
    assert kept[:2] == kept[2:]
    assert [a + b for a, b in zip(shares[:2], shares[2:], strict=True)] == kept[:2]
    assert max(share / whole for share, whole in zip(shares, kept, strict=True)) < 0.51


def test_resharded_replicas_hold_one_whole_layer_at_a_time(ran):
    of_sharded, of_resharded = ([found["llama"].whole_layers for found in ran[of]] for of in ("sharded", "resharded"))
    assert of_sharded == [1, 3, 1, 3] and of_resharded == [1, 1, 1, 1]


def test_replicas_without_a_document_run_along():
    for of_gradients, of_loss in run(4, of_idle_replicas, 5):
        assert of_gradients <= BOUND and of_loss <= BOUND
