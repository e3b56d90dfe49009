"""Runs of the Trainer that end before their last step, at a limit or on request: saved, evaluated,
and ready to go on."""

import signal

import numpy as np
import pytest
from ending_ranks import stop_in_evaluation, stop_in_step, train_on, train_within
from ranks import run
from slimpack import InvalidInput
from slimpack.torch.pipeline import Checkpoints
from slimpack.torch.pipeline.ending import Ending
from training_ranks import evaluations, lines, resume, train, with_held_out

EVALUATING = with_held_out(2)


@pytest.fixture(name="whole", scope="module")
def fixture_whole(tmp_path_factory):
    """(folder, weights by rank) of a run of four steps that never stopped."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, run(2, train, folder, 2, 4, "whole", EVALUATING)


def steps_of(folder):
    """Steps of the metrics, of the evaluations, of the newest checkpoint."""
    return ([line["step"] for line in lines(folder)],
            [line["step"] for line in evaluations(folder)],
            max(Checkpoints(folder / "checkpoints").steps()))


def assert_same_bits(runs, others):
    for weights, expected in zip(runs, others, strict=True):
        assert all(np.array_equal(weights[name], expected[name]) for name in expected)


def assert_goes_on_as_if_it_had_never_stopped(folder, whole):
    assert_same_bits(run(2, resume, folder, 2, 4, "whole", EVALUATING), whole[1])
    for figure, of in (("loss", lines), ("evaluation_loss", evaluations)):
        expected = {line["step"]: line[figure] for line in of(whole[0])}
        found = {line["step"]: line[figure] for line in of(folder)}
        assert {step: found[step] for step in expected} == expected


def test_a_run_ends_with_the_step_that_reaches_the_tokens(whole, tmp_path):
    first, second, third, _ = (line["tokens"] for line in lines(whole[0]))
    of_two = [{"max_tokens": first + 1}] * 2
    for _ in range(2):  # the second time there is nothing to do
        assert run(2, train_within, tmp_path, 4, of_two, EVALUATING) == ["limit"] * 2
        assert steps_of(tmp_path) == ([1, 2], [0, 2], 2)
    # Tokens of both starts count: the third step reaches them, and the run is evaluated there.
    of_three = [{"max_tokens": first + second + third}] * 2
    assert run(2, train_within, tmp_path, 4, of_three, EVALUATING) == ["limit"] * 2
    assert steps_of(tmp_path) == ([1, 2, 3], [0, 2, 3], 3)
    assert_goes_on_as_if_it_had_never_stopped(tmp_path, whole)


def test_ranks_end_together_when_the_time_of_one_is_over(whole, tmp_path):
    limits = [{}, {"max_seconds": 1e-9}]  # one step is trained in any case
    assert run(2, train_within, tmp_path, 4, limits, EVALUATING) == ["limit"] * 2
    assert steps_of(tmp_path) == ([1], [0, 1], 1)
    assert_goes_on_as_if_it_had_never_stopped(tmp_path, whole)


def test_a_trainer_goes_on_where_its_time_was_over(whole, tmp_path):
    limits = [{"max_seconds": 1e-9}] * 2
    ended, weights = zip(*run(2, train_on, tmp_path, 4, limits, EVALUATING), strict=True)
    assert ended == (["limit", "done"],) * 2
    assert steps_of(tmp_path) == ([1, 2, 3, 4], [0, 1, 2, 4], 4)
    assert_same_bits(weights, whole[1])


def test_the_last_step_may_reach_the_tokens(whole, tmp_path):
    enough = [{"max_tokens": sum(line["tokens"] for line in lines(whole[0])[:2])}] * 2
    assert run(2, train_within, tmp_path, 2, enough) == ["done"] * 2


def test_all_ranks_stop_after_the_step_in_which_one_is_asked_to(whole, tmp_path):
    found = run(2, stop_in_step, tmp_path, signal.SIGINT)
    assert found == [("interrupted", True)] * 2
    assert steps_of(tmp_path) == ([1, 2], [0], 2)
    assert (tmp_path / "timeline.json").exists()
    assert_goes_on_as_if_it_had_never_stopped(tmp_path, whole)


def test_a_run_that_is_stopped_in_an_evaluation_makes_up_for_it(whole, tmp_path):
    found = run(2, stop_in_evaluation, tmp_path, signal.SIGTERM)
    assert found == [("stopped", True)] * 2
    assert steps_of(tmp_path) == ([1, 2], [0], 2)
    assert_goes_on_as_if_it_had_never_stopped(tmp_path, whole)
    assert steps_of(tmp_path) == ([1, 2, 3, 4], [0, 2, 4], 4)


@pytest.mark.parametrize("limits, message", [
    ((0, None), "max_tokens is 0, must be a whole number from 1 to"),
    ((None, 0), "max_seconds is 0, must be above 0"),
    ((None, float("nan")), "max_seconds is nan, must be above 0"),
])
def test_limits_are_above_0(limits, message):
    with pytest.raises(InvalidInput, match=message):
        Ending(None, 0, 4, *limits)
