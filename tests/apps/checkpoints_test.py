"""Checkpoints: a run that is killed goes on as if it had not been, and nothing broken is used."""

import json
import math
import os
import random
import shutil
import signal
import subprocess
import time

import pytest
from forking import forked_job
from program import (SLIMPACK, assert_failed, assert_refused, learned, losses, metrics,
                     newest_checkpoint, run, settings, tensors, with_full_disk)

# How often jobs are killed: fewer times in a sample, more in `make soak`.
KILLS = int(os.environ.get("SLIMPACK_KILLS", "4"))


def names(folder):
    return sorted(p.name for p in (folder / "checkpoints").iterdir())


def resume(workspace, output, *overrides, path="auto", **options):
    return run("train", workspace.config(output), *settings(overrides), "--resume", path, **options)


def train_and_kill(file, overrides, r):
    """Goes on with the run and kills it at a random moment: while it starts, trains, or saves."""
    command = [SLIMPACK, "train", file, *settings(overrides), "--resume", "auto"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        steps = r.randrange(4)
        for line in process.stderr:
            assert "passed over" not in line
            steps -= line.startswith("step ")
            if steps <= 0:
                break
        time.sleep(r.uniform(0, 0.1))
        process.kill()


@pytest.mark.parametrize("name, grid", [
    ("fp32", ["parallel.pp=2"]),
    ("bf16", ["parallel.pp=2", "parallel.dp=2", "train.dtype=bf16"]),
    ("stages", ["parallel.pp=2", "parallel.stages_per_rank=2", "parallel.spread_vocabulary=true",
                "parallel.exchange_context=true"]),
])
def test_a_run_that_is_killed_again_and_again_ends_as_if_it_had_not_been(workspace, name, grid):
    kills = 2 + 2 * KILLS
    steps = 4 * kills + 5  # each kill comes after at most three steps; and what is left to do
    usual = ["data.step_tokens=200", "plan.granularity=32", f"train.steps={steps}", *grid]
    expected = workspace.train(f"{name}-never-killed", *usual)
    killed = workspace.folder / f"{name}-killed"
    file = workspace.config(killed.name)
    often = [*usual, "checkpoint.every=1"]
    r = random.Random(name)
    for _ in range(kills):
        train_and_kill(file, often, r)
    done = resume(workspace, killed.name, *often)
    assert done.returncode == 0, done.stderr
    assert "passed over" not in done.stderr
    assert learned(killed) == learned(expected)
    assert [line["step"] for line in metrics(killed)] == list(range(1, steps + 1))
    assert tensors(killed) == tensors(expected)
    assert names(killed) == [f"step-{steps - 1:08}", f"step-{steps:08}"]


def kill_one(workspace, command, r):
    """Goes on with the job and kills a process of it while it trains or saves."""
    with forked_job(workspace.folder, *[command] * 2) as processes:
        processes.wait_for("\nstep ", times=r.randrange(1, 5))
        time.sleep(r.uniform(0, 0.1))
        killed = r.randrange(2)
        processes.signal(killed, signal.SIGKILL)
        assert set(processes.codes(but=[killed])) == {1}, processes.text()
        assert "passed over" not in processes.text()


@pytest.mark.whole
def test_a_job_that_loses_processes_ends_as_if_it_had_not(workspace):
    steps = 20 * KILLS + 20  # more than a job gets to before it is killed
    usual = ["data.step_tokens=200", "plan.granularity=32", f"train.steps={steps}", "parallel.pp=2"]
    expected = workspace.train("threads", *usual)
    command = ["-m", "slimpack.worker", workspace.config("processes"), "--resume", "auto",
               *settings([*usual, "checkpoint.every=1"])]
    r = random.Random(1)
    for _ in range(KILLS):
        kill_one(workspace, command, r)
    with forked_job(workspace.folder, *[command] * 2) as processes:
        assert processes.codes() == [0] * 2, processes.text()
        assert processes.text().count("resume: ") == 1  # the first tells
    folder = workspace.folder / "processes"
    assert learned(folder) == learned(expected)
    assert tensors(folder) == tensors(expected)


def test_threads_go_on_from_nodes_that_each_sum_first(workspace):
    """Replicas of a node own other shards of the optimizer's state than threads do."""
    usual = [*SIX, "parallel.dp=4"]
    expected = workspace.train("four-threads", *usual)
    command = ["-m", "slimpack.worker", workspace.config("two-nodes"), *settings([*usual, "train.steps=3"])]
    with forked_job(workspace.folder, *[command] * 4) as processes:  # two on each node
        assert processes.codes() == [0] * 4, processes.text()
    done = resume(workspace, "two-nodes", *usual)
    assert done.returncode == 0, done.stderr
    assert learned(workspace.folder / "two-nodes") == learned(expected)
    assert tensors(workspace.folder / "two-nodes") == tensors(expected)


@pytest.fixture(scope="module")
def six_steps(workspace):
    """A run in fp64 on one rank that has kept the state after each of its steps."""
    return workspace.train("six", *SIX, "checkpoint.every=1", "checkpoint.keep_last=6")


SIX = ["data.step_tokens=300", "train.steps=6", "train.dtype=fp64", "train.epsilon=1e-4"]


@pytest.mark.parametrize("grid", [(4, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 2)])
def test_other_ranks_go_on_with_the_same_losses(workspace, six_steps, grid):
    name = "six-on-" + "-".join(map(str, grid))
    axes = [f"parallel.{axis}={n}" for axis, n in zip(("pp", "dp", "tp"), grid)]
    third = six_steps / "checkpoints" / "step-00000003"
    done = resume(workspace, name, *SIX, *axes, path=third)
    assert done.returncode == 0, done.stderr
    assert losses(workspace.folder / name) == pytest.approx(losses(six_steps)[3:], rel=1e-12)
    assert [line["step"] for line in metrics(workspace.folder / name)] == [4, 5, 6]


def copied(workspace, six_steps, name):
    return shutil.copytree(six_steps, workspace.folder / name)


@pytest.mark.parametrize("name, damage", [
    ("removed", lambda file: file.unlink()),
    ("short", lambda file: file.write_bytes(file.read_bytes()[:-1])),
    ("changed", lambda file: file.write_bytes(file.read_bytes()[:-1] + b"?")),
])
def test_a_broken_checkpoint_is_named_and_passed_over(workspace, six_steps, name, damage):
    folder = copied(workspace, six_steps, name)
    damage(newest_checkpoint(folder) / "optimizer.safetensors")
    done = resume(workspace, name, *SIX)
    assert done.returncode == 0, done.stderr
    first, second, *_ = done.stderr.splitlines()
    assert "step-00000006 is passed over: " in first and "optimizer.safetensors" in first
    assert second.endswith("step-00000005, 5 of 6 steps are done")
    assert learned(folder) == learned(six_steps)
    assert tensors(folder) == tensors(six_steps)


def test_going_back_to_an_earlier_checkpoint_repeats_the_steps_after_it(workspace, six_steps):
    folder = copied(workspace, six_steps, "back")
    done = resume(workspace, "back", *SIX, path=folder / "checkpoints" / "step-00000002/")
    assert done.returncode == 0, done.stderr
    assert learned(folder) == learned(six_steps)
    assert tensors(folder) == tensors(six_steps)


def test_costs_that_are_other_ones_now_do_not_change_the_plans(workspace):
    """Costs change when they are measured again: with these, the layers would be divided otherwise."""
    usual = ["data.step_tokens=300", "train.steps=4", "parallel.pp=2", "checkpoint.every=2"]
    whole = workspace.train("costs", *usual)
    slow = ["hardware.linear_flops=1e9"]  # then the head weighs as much as two layers
    otherwise = workspace.train("other-costs", *usual, *slow)
    halfway = workspace.folder / "costs-halfway"
    shutil.copytree(whole / "checkpoints" / "step-00000002",
                    halfway / "checkpoints" / "step-00000002")
    done = resume(workspace, "costs-halfway", *usual, *slow)
    assert done.returncode == 0, done.stderr
    assert learned(halfway) == learned(whole)[2:]
    assert tensors(halfway) == tensors(whole)
    states = [json.loads((newest_checkpoint(f) / "training_state.json").read_text())
              for f in (whole, halfway, otherwise)]
    layers = [state["run"]["layer_begin"] for state in states]
    assert layers[0] == layers[1] != layers[2]


@pytest.mark.parametrize("before, after", [(2, 1), (1, 2), (2, "auto")])
def test_a_checkpoint_resumes_on_another_number_of_stages_a_rank(workspace, before, after):
    """Weights and moments are those of a run that never changed, but for the order of sums."""
    usual = ["parallel.pp=2", "data.step_tokens=300", "train.dtype=fp64", "train.steps=4",
             "checkpoint.every=2"]
    stages = f"parallel.stages_per_rank={before}"
    name = f"stages-{before}-{after}"
    whole = workspace.train(name, *usual, stages)
    halfway = workspace.folder / f"{name}-halfway"
    shutil.copytree(whole / "checkpoints" / "step-00000002",
                    halfway / "checkpoints" / "step-00000002")
    done = resume(workspace, halfway.name, *usual, f"parallel.stages_per_rank={after}")
    assert done.returncode == 0, done.stderr
    losses = [line["loss"] for line in metrics(halfway)]
    assert losses == pytest.approx([line["loss"] for line in metrics(whole)][2:], rel=1e-9)
    files = [sorted(p.name for p in newest_checkpoint(f).glob("model*.safetensors"))
             for f in (whole, halfway)]
    if after != "auto":  # which goes on with the checkpoint's stages
        assert len(files[0]) != len(files[1])


@pytest.mark.parametrize("tied", [False, True])
def test_a_checkpoint_resumes_on_stages_that_turn_back(workspace, tied):
    """The stages are those of the new setting, not the checkpoint's. Both ends of a tied matrix are on
    one rank then."""
    usual = ["parallel.pp=2", "parallel.stages_per_rank=2", "data.step_tokens=300", "train.dtype=fp64",
             "train.steps=4", "checkpoint.every=2", "plan.planner=packed"]
    model = dict(tie_word_embeddings=tied)
    whole = workspace.train(f"around-{tied}", *usual, model=model)
    halfway = workspace.folder / f"turn-{tied}"
    shutil.copytree(whole / "checkpoints" / "step-00000002",
                    halfway / "checkpoints" / "step-00000002")
    overrides = settings([*usual, "parallel.placement=v"])
    done = run("train", workspace.config(halfway.name, **model), *overrides, "--resume", "auto")
    assert done.returncode == 0, done.stderr
    losses = [line["loss"] for line in metrics(halfway)]
    assert losses == pytest.approx([line["loss"] for line in metrics(whole)][2:], rel=1e-9)
    plan = json.loads((halfway / "plan.json").read_text())["plan"]
    assert plan["rank_of_stage"] == [0, 1, 1, 0]


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("before, after", [("true", "false"), ("false", "true"), ("true", "auto")])
def test_a_checkpoint_resumes_on_a_vocabulary_that_lies_elsewhere(workspace, before, after, tied):
    usual = ["parallel.pp=2", "data.step_tokens=300", "train.dtype=fp64", "train.steps=4",
             "checkpoint.every=2"]
    model = dict(tie_word_embeddings=tied)
    name = f"words-{before}-{after}-{tied}"
    whole = workspace.train(name, *usual, f"parallel.spread_vocabulary={before}", model=model)
    halfway = workspace.folder / f"{name}-halfway"
    shutil.copytree(whole / "checkpoints" / "step-00000002",
                    halfway / "checkpoints" / "step-00000002")
    overrides = settings([*usual, f"parallel.spread_vocabulary={after}"])
    done = run("train", workspace.config(halfway.name, **model), *overrides, "--resume", "auto")
    assert done.returncode == 0, done.stderr
    losses = [line["loss"] for line in metrics(halfway)]
    assert losses == pytest.approx([line["loss"] for line in metrics(whole)][2:], rel=1e-9)


def test_a_finished_run_has_nothing_to_go_on_with(workspace, six_steps):
    folder = copied(workspace, six_steps, "finished")
    done = resume(workspace, "finished", *SIX)
    assert done.returncode == 0, done.stderr
    assert "6 of 6 steps are done" in done.stderr
    assert learned(folder) == learned(six_steps) and names(folder) == names(six_steps)


def test_without_a_checkpoint_it_begins_and_says_so(workspace):
    done = resume(workspace, "begin")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("resume: no checkpoint in ")
    assert [line["step"] for line in metrics(workspace.folder / "begin")] == [1, 2, 3]


def test_without_a_sound_checkpoint_it_touches_nothing(workspace, six_steps):
    folder = copied(workspace, six_steps, "hopeless")
    for checkpoint in (folder / "checkpoints").iterdir():
        (checkpoint / "training_state.json").write_text("{}")
    done = resume(workspace, "hopeless", *SIX)
    assert_refused(done, "hopeless/checkpoints", "no checkpoint that can be used", "remove")
    assert learned(folder) == learned(six_steps) and names(folder) == names(six_steps)


def test_a_run_does_not_replace_the_checkpoints_of_another(workspace, six_steps):
    folder = copied(workspace, six_steps, "occupied")
    own = resume(workspace, "occupied", *SIX, path=six_steps / "checkpoints" / "step-00000001")
    for done in (run("train", workspace.config("occupied"), *settings(SIX)), own):
        assert_refused(done, "occupied/checkpoints", "after 6 steps", "--resume auto", "output.dir")
    assert names(folder) == names(six_steps)


@pytest.mark.parametrize("override, parts", [
    ("train.dtype=fp32", ["train.dtype", "fp64", "fp32"]),
    ("train.seed=1", ["train.seed was 0 and is 1 now"]),
    ("data.seed=1", ["data.seed"]),
    ("data.context=512", ["data.context was 1024 and is 512 now"]),
    ("data.long_documents=truncate", ['data.long_documents was "split" and is "truncate" now']),
])
def test_other_settings_cannot_go_on(workspace, six_steps, override, parts):
    name = "other-" + override.split("=")[0]
    folder = copied(workspace, six_steps, name)
    done = resume(workspace, name, *SIX, override)
    assert_refused(done, "step-00000006", "set it back", "--init", *parts)
    assert learned(folder) == learned(six_steps) and names(folder) == names(six_steps)


def test_a_run_goes_on_for_more_steps_than_it_was_begun_for(workspace, six_steps):
    """With a constant learning rate nine steps in two goes are nine steps at once, bit by bit."""
    folder = copied(workspace, six_steps, "extended")
    done = resume(workspace, "extended", *SIX, "train.steps=9")
    assert done.returncode == 0, done.stderr
    assert "\nresume: train.steps was 6 and is 9 now\n" in done.stderr
    nine = workspace.train("nine", *SIX, "train.steps=9")
    assert learned(folder) == learned(nine)
    assert tensors(folder) == tensors(nine)


def test_a_run_goes_on_with_the_learning_rates_that_the_run_file_says_now(workspace, six_steps):
    folder = copied(workspace, six_steps, "slower")
    done = resume(workspace, "slower", *SIX, "train.steps=10", "train.min_learning_rate=0",
                  path=folder / "checkpoints" / "step-00000004")
    assert done.returncode == 0, done.stderr
    assert "train.min_learning_rate was 0.01 and is 0 now" in done.stderr
    # Half a cosine from 1e-2 in the first of ten steps to 0 in the last: steps 5 to 10 are at 4/9 … 1.
    rates = [line["learning_rate"] for line in metrics(folder)[4:]]
    assert rates == pytest.approx([1e-2 * (1 + math.cos(math.pi * k / 9)) / 2 for k in range(4, 10)],
                                  abs=1e-12)


def test_a_checkpoint_from_before_losses_had_a_kind_goes_on(workspace, six_steps):
    """All targets counted alike then, which is what train.loss = "token" says. A share of targets that plans
    take changes nothing that is trained."""
    folder = copied(workspace, six_steps, "older")
    file = folder / "checkpoints" / "step-00000006" / "training_state.json"
    state = json.loads(file.read_text())
    assert state["run"]["settings"].pop("train.loss") == 'loss = "token"'
    assert "data.target_share" not in state["run"]["settings"]
    file.write_text(json.dumps(state))
    done = resume(workspace, "older", *SIX, "train.steps=7", "data.target_share=0.5")
    assert done.returncode == 0, done.stderr
    assert len(learned(folder)) == 7
    refused = resume(workspace, "older", *SIX, "train.steps=8", "train.loss=document")
    assert_refused(refused, 'train.loss was "token" and is "document" now')


def test_a_run_does_not_go_on_to_fewer_steps_than_are_done(workspace, six_steps):
    folder = copied(workspace, six_steps, "fewer")
    assert_refused(resume(workspace, "fewer", *SIX, "train.steps=5"), "6 steps are done",
                   "train.steps is 5", "raise it")
    assert learned(folder) == learned(six_steps)


def test_other_data_or_another_model_cannot_go_on(workspace, six_steps):
    copied(workspace, six_steps, "other-model")
    file = workspace.config("other-model", rope_theta=5e5)
    done = run("train", file, *settings(SIX), "--resume", "auto")
    assert_refused(done, "step-00000006", "model.config", "set it back")

    copied(workspace, six_steps, "other-data")
    (workspace.folder / "shorter").mkdir()
    (workspace.folder / "shorter" / "one.txt").write_text("abcd")
    prefix = workspace.folder / "shorter" / "corpus"
    assert run("data", "build", "--from", prefix.parent, "--out", prefix).returncode == 0
    done = resume(workspace, "other-data", *SIX, f"data.prefix={prefix}")
    assert_refused(done, "step-00000006", "data.prefix", "12 documents", "1 documents")


def test_as_many_checkpoints_are_kept_as_was_asked_for(workspace):
    folder = workspace.train("kept", "train.steps=7", "checkpoint.every=2", "checkpoint.keep_last=3",
                             "data.step_tokens=200")
    assert names(folder) == ["step-00000004", "step-00000006", "step-00000007"]


def test_a_full_disk_ends_the_run_and_leaves_the_checkpoints_before(workspace, six_steps):
    folder = copied(workspace, six_steps, "full")
    shutil.rmtree(newest_checkpoint(folder))
    before = tensors(folder)
    # The largest file is that of the optimizer; metrics have room.
    done = with_full_disk(50_000, "train", workspace.config("full"), *settings(SIX), "--resume",
                          "auto")
    assert_failed(done, ".partial-step-00000006", "File too large", "earlier checkpoints are intact")
    assert names(folder) == [f"step-{s:08}" for s in range(1, 6)]
    assert tensors(folder) == before
    assert resume(workspace, "full", *SIX).returncode == 0
    assert tensors(folder) == tensors(six_steps)


def test_a_disk_that_is_full_ends_the_run_at_the_next_step(workspace):
    done = with_full_disk(20_000, "train", workspace.config("full-early"),
                          *settings(["train.steps=1000", "checkpoint.every=1"]))
    assert_failed(done, "step-00000001", "File too large")
    # The save is found to have failed after the step that ran meanwhile, or when the next begins.
    assert len(metrics(workspace.folder / "full-early")) <= 2
    assert not names(workspace.folder / "full-early")


def test_a_folder_that_cannot_be_written_is_named(workspace):
    file = workspace.config("read-only")
    (workspace.folder / "read-only").mkdir()
    # Not even root makes files there.
    (workspace.folder / "read-only" / "checkpoints").symlink_to("/proc/self")
    done = run("train", file)
    assert_refused(done, "read-only/checkpoints")
