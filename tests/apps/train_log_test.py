"""`slimpack train --log`: a stand-in for wandb is sent every step once, and its trouble ends no run."""

import itertools
import os
import subprocess
import time

import pytest
from forking import forked_job
from program import (SLIMPACK, TIMEOUT, all_metrics, assert_refused, metrics, run, settings, worker)
from processes import PATIENCE, environment
from wandb_server import WandbServer, row_of

USUAL = ["parallel.pp=2", "data.step_tokens=400"]


@pytest.fixture(name="server")
def fixture_server(tmp_path):
    return WandbServer(tmp_path / "server")


def train(workspace, output, server, *overrides, log="wandb", arguments=(), **variables):
    return run("train", workspace.config(output), *settings([*USUAL, *overrides]), "--log", log, *arguments,
               env=server.variables(os.environ, **variables))


def expected_rows(folder):
    """A row for the lines of each step."""
    return [(step, row_of(list(lines)))
            for step, lines in itertools.groupby(all_metrics(folder), lambda line: line["step"])]


def test_every_step_and_evaluation_is_sent_with_the_settings(workspace, server):
    done = train(workspace, "sent", server, "evaluation.every=2", f"evaluation.prefix={workspace.folder}/corpus")
    assert done.returncode == 0, done.stderr
    assert server.rows() == expected_rows(workspace.folder / "sent")
    start, *_, end = server.records()
    config = start["start"].pop("config")
    assert start == {"start": {"project": "slimpack", "name": "sent"}} and end == {"finished": 0}
    assert config["train"]["steps"] == 3 and config["train"]["learning_rate"] == 1e-2
    assert config["parallel"]["pp"] == 2 and config["data"]["step_tokens"] == 400
    assert done.stderr.count("\nwandb: https://stand.in/slimpack/runs/") == 1
    assert "loss" in done.stdout and "wandb" not in done.stdout


def test_a_run_that_is_killed_and_goes_on_has_each_step_once(workspace, server):
    command = [SLIMPACK, "train", workspace.config("killed"), "--log", "wandb",
               *settings([*USUAL, "checkpoint.every=1", "train.steps=100000"])]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          env=server.variables(os.environ)) as process:
        for line in process.stderr:
            if line.startswith("step      5/"):
                break
        process.kill()
        process.communicate(timeout=PATIENCE)  # the child ends by itself, and closes stderr
    assert server.records()[-1] == {"finished": 1}
    done = len(metrics(workspace.folder / "killed"))
    resumed = train(workspace, "killed", server, f"train.steps={done + 4}", arguments=["--resume", "auto"])
    assert resumed.returncode == 0, resumed.stderr
    assert server.steps() == list(range(1, done + 5))
    losses = {line["step"]: line["loss"] for line in metrics(workspace.folder / "killed")}
    assert {step: row["loss"] for step, row in server.rows()} == losses
    assert server.records()[-1] == {"finished": 0}


def test_a_missing_library_is_named_before_the_run_begins(workspace, tmp_path):
    (tmp_path / "wandb.py").write_text("raise ImportError(\"No module named 'wandb'\")")
    done = run("train", workspace.config("missing"), "--log", "wandb",
               env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert_refused(done, "wandb is not installed", "pip install wandb")
    assert done.stderr.count("\n") == 1 and not (workspace.folder / "missing").exists()


@pytest.mark.parametrize("trouble, warning", [
    ("login", "warning: wandb: No API key configured. Use `wandb login` to log in.; training goes on, and "
              "python -m slimpack.log"),
    ("log", "warning: wandb: the disk is full; training goes on"),
    ("die", "warning: the process that sends metrics ended with exit code 9; python -m slimpack.log"),
])
def test_trouble_costs_a_warning_and_no_step(workspace, server, trouble, warning):
    done = train(workspace, f"trouble-{trouble}", server, STAND_IN_TROUBLE=trouble)
    assert done.returncode == 0, done.stderr
    assert [line["step"] for line in metrics(workspace.folder / f"trouble-{trouble}")] == [1, 2, 3]
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert line.startswith(warning)


def test_a_run_that_fails_is_marked_so(workspace, server):
    done = train(workspace, "failing", server, "train.learning_rate=1e30", "train.min_learning_rate=1e30")
    assert done.returncode == 1
    assert server.records()[-1] == {"finished": 1}
    assert server.steps() == [line["step"] for line in metrics(workspace.folder / "failing")]


def test_a_name_that_is_none_is_refused(workspace, server):
    assert_refused(train(workspace, "unknown", server, log="mlflow"), "output.log", "mlflow",
                   "tensorboard and wandb")


def test_the_first_of_several_processes_sends(workspace, server, tmp_path):
    words = worker(workspace.config("processes"), *USUAL, "parallel.dp=2", TIMEOUT, "output.log=wandb")
    with forked_job(tmp_path, *[words] * 4, variables=server.variables(environment())) as job:
        assert job.codes() == [0] * 4, job.text()
    assert server.rows() == expected_rows(workspace.folder / "processes")
