"""Runs that end before their last step, by tokens or by time: saved, evaluated, exit code 0, and ready
to go on."""

import pytest
from forking import forked_job
from program import (TOKENS, evaluations, losses, metrics, newest_checkpoint, run, settings, weights)

# A step holds the whole corpus.
USUAL = ["train.steps=4", "parallel.pp=2"]


def train(workspace, output, *overrides):
    done = run("train", workspace.config(output), *settings([*USUAL, *overrides]), "--resume", "auto")
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()[-1]


@pytest.fixture(scope="module")
def evaluate(workspace):
    return [f"evaluation.prefix={workspace.folder}/corpus", "evaluation.every=4"]


@pytest.fixture(scope="module")
def whole(workspace, evaluate):
    return workspace.train("whole", *USUAL, *evaluate)


def test_a_run_ends_with_the_step_that_reaches_the_tokens_and_goes_on_under_a_higher_limit(
        workspace, whole, evaluate):
    folder = workspace.folder / "tokens"
    # One token more than a step holds: two steps.
    limit = f"train.max_tokens={TOKENS + 1}"
    for _ in range(2):  # the second time there is nothing to do
        last = train(workspace, "tokens", *evaluate, limit)
        assert last.startswith(f"slimpack: train.max_tokens = {TOKENS + 1} is reached")
        assert " 2 " in last
        assert newest_checkpoint(folder).name == "step-00000002"
        assert [line["step"] for line in metrics(folder)] == [1, 2]
        assert [line["step"] for line in evaluations(folder)] == [0, 2]
    # Tokens of both starts count: the third step reaches them.
    last = train(workspace, "tokens", *evaluate, f"train.max_tokens={3 * TOKENS}")
    assert last.startswith(f"slimpack: train.max_tokens = {3 * TOKENS} is reached after 3 of 4 steps")
    train(workspace, "tokens", *evaluate)
    assert losses(folder) == losses(whole)
    assert weights(folder) == weights(whole)
    # Where the run ended early it was evaluated, too.
    assert [line["step"] for line in evaluations(folder)] == [0, 2, 3, 4]
    assert evaluations(folder)[-1] == evaluations(whole)[-1]


def test_the_last_step_may_reach_the_tokens(workspace, whole):
    last = train(workspace, "just-enough", f"train.max_tokens={4 * TOKENS}")
    assert "max_tokens" not in last
    assert losses(workspace.folder / "just-enough") == losses(whole)


def test_a_start_without_time_trains_one_step(workspace, whole, evaluate):
    folder = workspace.folder / "seconds"
    for step in (1, 2):
        last = train(workspace, "seconds", *evaluate, "train.max_seconds=1e-9")
        assert last.startswith(f"slimpack: train.max_seconds = 1e-09 is reached after {step} of 4 steps")
        assert newest_checkpoint(folder).name == f"step-{step:08}"
        assert [line["step"] for line in evaluations(folder)] == list(range(step + 1))
    last = train(workspace, "seconds", *evaluate, "train.max_seconds=1000")
    assert "max_seconds" not in last
    assert losses(folder) == losses(whole)
    assert weights(folder) == weights(whole)


def test_processes_end_together_when_the_time_of_one_is_over(workspace, whole, evaluate):
    file = workspace.config("together")
    command = ["-m", "slimpack.worker", file, *settings([*USUAL, *evaluate, "parallel.timeout=5"])]
    commands = [command, [*command, "--set", "train.max_seconds=1e-9"]]
    with forked_job(workspace.folder, *commands) as processes:
        assert processes.codes() == [0, 0], processes.text()
        assert "is reached after 1 of 4 steps" in processes.text()
    folder = workspace.folder / "together"
    assert losses(folder) == losses(whole)[:1]
    assert [line["step"] for line in evaluations(folder)] == [0, 1]
    assert newest_checkpoint(folder).name == "step-00000001"


def test_limits_do_not_compare_planners_at_the_end(workspace):
    done = run("train", workspace.config("against"),
               *settings([*USUAL, "train.max_tokens=1"]), "--against", "packed")
    assert done.returncode == 0, done.stderr
    assert "fixed packing" not in done.stdout
