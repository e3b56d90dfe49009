"""`python -m slimpack.log`: what wandb is sent is what metrics.jsonl says, each step once, whatever ends it."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from processes import PATIENCE, environment
from wandb_server import WandbServer, row_of


def step_line(step, loss=1.0):
    return dict(step=step, loss=loss, clock="wall", peak_activation_bytes=[3, 4], unix_ms=1000 + step)


def evaluation_line(step):
    return dict(step=step, evaluation_loss=2.5, unix_ms=2000 + step)


def add(folder, *lines):
    with (folder / "metrics.jsonl").open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


@pytest.fixture(name="server")
def fixture_server(tmp_path):
    return WandbServer(tmp_path / "server")


@pytest.fixture(name="run")
def fixture_run(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    return folder


def command(folder, *options):
    return [sys.executable, "-m", "slimpack.log", str(folder), "--to", "wandb", *options]


def send(folder, server, *options, **variables):
    return subprocess.run(command(folder, *options), env=server.variables(environment(), **variables),
                          capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_each_step_is_a_row_with_the_evaluation_after_it(run, server):
    lines = [evaluation_line(0), step_line(1), step_line(2), evaluation_line(2), step_line(3)]
    add(run, *lines)
    done = send(run, server)
    assert (done.returncode, done.stdout) == (0, "5 lines of metrics are in wandb\n"), done.stderr
    assert server.rows() == [(0, row_of(lines[:1])), (1, row_of(lines[1:2])), (2, row_of(lines[2:4])),
                             (3, row_of(lines[4:]))]
    assert server.rows()[3][1] == {"loss": 1.0, "peak_activation_bytes": 4, "_timestamp": 1.003}
    start, *_, end = server.records()
    assert start == {"start": {"project": "slimpack", "name": "mine", "config": None}} and end == {"finished": 0}


@pytest.mark.parametrize("mode", ["online", "offline"])
def test_a_later_start_sends_what_is_new_to_the_same_run(run, server, mode):
    add(run, step_line(1), step_line(2))
    said = [send(run, server, WANDB_MODE=mode).stderr]
    # A run that was stopped evaluates first: of the second step, whose row wandb takes no more.
    add(run, evaluation_line(2), step_line(3))
    said.append(send(run, server, WANDB_MODE=mode).stderr)
    assert server.rows() == [(1, row_of([step_line(1)])), (2, row_of([step_line(2)])),
                             (3, row_of([evaluation_line(2), step_line(3)]))]
    assert said[0] == said[1]
    assert said[0].startswith("wandb: " + ("https://stand.in/slimpack/runs/" if mode == "online" else "offline in "))


def test_what_the_server_never_got_is_sent_again(run, server):
    add(run, *(step_line(step) for step in (1, 2, 3)))
    send(run, server)
    (file,) = server.folder.glob("*.jsonl")
    lost = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lost[:2]))  # the start and the first row have come
    send(run, server)
    assert server.steps() == [1, 2, 3]


def test_names_that_the_environment_gives_are_left_to_wandb(run, server):
    add(run, step_line(1))
    send(run, server, WANDB_PROJECT="p", WANDB_NAME="n", WANDB_RUN_ID="chosen")
    assert server.records()[0] == {"start": {"project": None, "name": None, "config": None}}
    assert [file.stem for file in server.folder.iterdir()] == ["chosen"]


def wait_for_steps(server, steps):
    end = time.monotonic() + PATIENCE
    while not list(server.folder.glob("*.jsonl")) or server.steps() != steps:
        assert time.monotonic() < end, server.records()
        time.sleep(0.05)


def test_a_killed_process_repeats_and_loses_no_step(run, server):
    """The row of the last step waits for its evaluation, so it is sent with the next step or at the end."""
    add(run, step_line(1), step_line(2), step_line(3))
    for steps, more in (([1, 2], step_line(4)), ([1, 2, 3], step_line(5))):
        with subprocess.Popen(command(run, "--follow"), env=server.variables(environment()),
                              stderr=subprocess.DEVNULL) as process:
            wait_for_steps(server, steps)
            process.kill()
        add(run, more)
    assert send(run, server).returncode == 0
    assert server.steps() == [1, 2, 3, 4, 5]


def test_steps_that_are_trained_again_are_not_sent_again(run, server):
    add(run, *(step_line(step) for step in range(1, 5)))
    with subprocess.Popen(command(run, "--follow"), env=server.variables(environment()),
                          stderr=subprocess.DEVNULL) as process:
        wait_for_steps(server, [1, 2, 3])
        again = [step_line(step, loss=9.0) for step in range(1, 7)]
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in again))
        wait_for_steps(server, [1, 2, 3, 4, 5])
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    assert [(step, row["loss"]) for step, row in server.rows()] == [
        (1, 1.0), (2, 1.0), (3, 1.0), (4, 9.0), (5, 9.0), (6, 9.0)]


@pytest.mark.parametrize("options, said", [
    (["--to", "wandb,mlflow"], "'mlflow' is none of tensorboard, wandb"),
    ([], "--to")])
def test_a_mistake_is_told_in_one_line(run, options, said):
    done = subprocess.run([sys.executable, "-m", "slimpack.log", str(run), *options], env=environment(),
                          capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and said in done.stderr


@pytest.mark.parametrize("module", ["raise ImportError(\"No module named 'wandb'\")", ""])
def test_a_missing_library_is_named(run, tmp_path, module):
    """A module of that name, such as the folder that wandb writes, need not be the library."""
    add(run, step_line(1))
    (tmp_path / "wandb.py").write_text(module)
    env = environment()
    done = subprocess.run(command(run), env={**env, "PYTHONPATH": f"{env['PYTHONPATH']}:{tmp_path}"},
                          capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("slimpack: wandb is not installed (") and "pip install wandb" in done.stderr


def test_what_wandb_refuses_is_told_in_one_line(run, server):
    add(run, step_line(1))
    done = send(run, server, STAND_IN_TROUBLE="login")
    assert (done.returncode, done.stderr) == (
        1, "slimpack: failed: No API key configured. Use `wandb login` to log in.\n")
    assert os.listdir(server.folder) == []
