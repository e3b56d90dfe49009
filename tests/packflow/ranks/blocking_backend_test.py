"""The stand-in for NCCL blocks where NCCL blocks, in exchanges by hand. PackFlow's own steps run on
it in step/process_blocking_test.py."""

import blocking_ranks as on_rank
import pytest
from ranks import run

FIRST = "which makes a communicator for its first"


@pytest.mark.parametrize(("way", "connected"),
                         [("lazy", False), ("eager", False), ("eager", True)])
def test_the_first_send_of_a_pair_waits_for_the_other_rank_unless_they_have_connected(way, connected):
    early, _ = run(2, on_rank.first_send_of_a_pair, way, connected)
    assert early == connected


@pytest.mark.parametrize("way", ["lazy", "eager"])
def test_lazily_the_first_batch_of_a_group_waits_for_all_its_ranks(way):
    first, second, _ = run(3, on_rank.first_batch_of_a_group, way)
    assert first == second == (way == "eager")


def test_a_send_ends_when_its_receive_has_begun():
    assert run(2, on_rank.send_without_receive)[0] is False


@pytest.mark.parametrize("way", ["lazy", "eager"])
def test_eagerly_a_send_waits_behind_a_receive_from_another_rank(way):
    *_, (found, early) = run(3, on_rank.send_behind_a_receive, way)
    assert found == 7.0 and early == (way == "lazy")


@pytest.mark.parametrize("way", ["lazy", "eager"])
@pytest.mark.parametrize("batched", [True, False])
def test_two_ranks_that_receive_and_then_send_hang_unless_they_do_both_at_once(way, batched):
    for rank, said in enumerate(run(2, on_rank.both_ways, way, batched)):
        waits = "recv from " if way == "eager" else f"rank {rank}, which connects for its first recv "
        assert said == "ended" if batched else said.startswith(f"hang: {waits}"), said


def test_a_device_that_synchronises_waits_for_everything_posted():
    assert run(2, on_rank.synchronise_behind_a_send)[0] is False


@pytest.mark.parametrize(("synchronising", "hangs"),
                         [("none", False), ("first", True), ("every", True)])
def test_an_operator_that_synchronises_hangs_behind_a_receive_that_needs_its_result(
        synchronising, hangs):
    said, _ = run(2, on_rank.compute_behind_a_receive, synchronising)
    assert hangs == ("aten::mm has waited" in said and "recv from 1" in said), said
    assert hangs != (said == "ended"), said


def test_receives_posted_ahead_in_both_directions_hang_in_the_first_exchange():
    """Each stage makes the communicator of a group for which the other one has yet to come: stage 1
    that of the forward direction, stage 0 that of the backward direction."""
    for rank, said in enumerate(run(2, on_rank.receives_posted_ahead, "lazy", 4, False)):
        assert said.startswith(f"hang: rank {rank}, {FIRST} recv from {1 - rank} "), said
        assert said.endswith("posted before: nothing"), said


@pytest.mark.parametrize(("stages", "hangs"), [(2, False), (3, True)])
def test_with_eager_groups_of_a_pipeline_sends_behind_receives_close_a_circle_of_three(stages, hangs):
    """Stage 1 of 3 has posted the receive of pack 2 or a later one when it sends pack 0 or 1 on. Stage
    0 sends that pack after a backward pass, which needs the pack that waits."""
    said = run(stages, on_rank.receives_posted_ahead, "eager", 6, False)
    for text in said:
        assert text.startswith("hang: recv from ") if hangs else text == "ended", said
    if hangs:
        assert "send to 2" in said[1], said


@pytest.mark.parametrize("stages", [2, 3])
def test_groups_of_edges_let_receives_be_posted_ahead(stages):
    for said in run(stages, on_rank.receives_posted_ahead, "eager", 6, True):
        assert said == "ended", said


def test_groups_of_edges_that_have_not_connected_hang_in_the_first_exchange():
    for rank, said in enumerate(run(2, on_rank.receives_posted_ahead, "eager", 6, True, False)):
        assert said.startswith(f"hang: rank {rank}, which connects for its first recv "), said
