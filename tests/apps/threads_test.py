"""A machine that has no thread left: one line with what could not be started and the limits, or the same
result with fewer threads."""

import sys

import pytest
from program import assert_failed, run


@pytest.mark.parametrize("threads", range(6))
def test_a_run_that_cannot_start_its_threads_says_which(workspace, few_threads, threads):
    """Ranks start theirs first, then the planning of the next step and the writing of checkpoints."""
    done = run("train", workspace.config(f"threads{threads}"), "--set", "parallel.pp=3",
               "--set", "train.steps=1", env=few_threads(threads))
    if done.returncode != 0:
        assert_failed(done, "cannot start a thread for ", "; the system allows ", "(kernel.threads-max)")
    if threads < 3:
        assert f"rank {threads} of 3" in done.stderr


def test_plans_are_the_same_with_one_thread(workspace, few_threads, tmp_path):
    file = workspace.config("planned")
    for name, environment in (("all", None), ("one", few_threads(0))):
        done = run("plan", file, "--set", "parallel.pp=2", "--out", tmp_path / name, env=environment)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "all").read_bytes() == (tmp_path / "one").read_bytes()


def test_an_answer_whose_threads_cannot_start_is_one_line(workspace, few_threads):
    model = workspace.train("model", "train.steps=1") / "checkpoints"
    environment = {**few_threads(0), "OPENBLAS_NUM_THREADS": "1", "SLIMPACK_PYTHON": sys.executable}
    done = run("generate", model, "abc", "--threads", "4", env=environment)
    assert_failed(done, "cannot start a thread for each of 4 cores")
    done = run("generate", model, "abc", "--threads", "1", "--max-new-tokens", "2", env=environment)
    assert done.returncode == 0, done.stderr
