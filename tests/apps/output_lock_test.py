"""One run at a time in an output folder: the second is told who is there, and touches nothing."""

import re
import signal
import socket

import pytest
from forking import forked_job
from program import (TIMEOUT, assert_failed, assert_refused, complaint, learned, metrics,
                     newest_checkpoint, run, settings, training, wait_for_line, weights,
                     with_full_disk, worker)

SHORT = ["data.step_tokens=400", "parallel.pp=2"]
LONG = [*SHORT, "train.steps=100000"]


def names(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def assert_in_use(done, folder, pid):
    assert_refused(done, f"output.dir '{folder}' is in use by process {pid} on ",
                   socket.gethostname(), "wait", "set output.dir")
    assert re.search(r"since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC;", done.stderr)


@pytest.mark.parametrize("resume", [[], ["--resume", "auto"]])
def test_a_second_run_is_refused_and_the_first_goes_on_unharmed(workspace, resume):
    name = f"shared{len(resume)}"
    file = workspace.config(name)
    folder = workspace.folder / name
    with training(file, *LONG, "checkpoint.every=1000") as first:
        wait_for_line(first, "step      3/")
        before = names(folder)
        assert "slimpack.lock" in before
        # The first run's death would leave this folder, and a run that starts would remove it.
        partial = folder / "checkpoints" / ".partial-step-00099999"
        partial.mkdir(parents=True)
        (partial / "file").write_text("half")
        done = run("train", file, *settings(LONG), *resume)
        assert_in_use(done, folder, first.pid)
        assert len(done.stderr.splitlines()) == 1 and done.stdout == ""
        assert (partial / "file").read_text() == "half"
        first.send_signal(signal.SIGTERM)
        _, err = first.communicate(timeout=60)
    assert first.returncode == 0, err
    steps = len(metrics(folder))
    assert newest_checkpoint(folder).name == f"step-{steps:08}"
    assert [line["step"] for line in metrics(folder)] == list(range(1, steps + 1))
    assert not (folder / "slimpack.lock").exists()
    # The learning rate does not change with the steps, so a run of just these steps has the same
    # bits.
    alone = workspace.train(f"{name}-alone", *SHORT, f"train.steps={steps}")
    assert weights(folder) == weights(alone) and learned(folder) == learned(alone)


def test_a_run_that_was_killed_keeps_nobody_out(workspace):
    file = workspace.config("killed")
    folder = workspace.folder / "killed"
    with training(file, *LONG) as first:
        wait_for_line(first, "step      3/")
        first.kill()
        first.wait(60)
    assert (folder / "slimpack.lock").exists()  # a text, and no lock
    workspace.train("killed", *SHORT)
    assert not (folder / "slimpack.lock").exists()


@pytest.mark.parametrize("folder", ["deep/er", "deep/er/"])
def test_a_run_that_is_refused_leaves_no_folder(workspace, folder):
    nowhere = settings(["data.prefix=nowhere", f"output.dir={workspace.folder}/{folder}"])
    assert_refused(run("train", workspace.config("refused"), *nowhere), "nowhere")
    assert not (workspace.folder / "deep").exists()


def test_a_disk_without_room_for_the_lock_fails_the_run_and_leaves_no_folder(workspace):
    done = with_full_disk(10, "train", workspace.config("no-room"))
    assert_failed(done, "no-room/slimpack.lock", "File too large", "output.dir")
    assert not (workspace.folder / "no-room").exists()


def test_jobs_of_processes_and_of_threads_keep_each_other_out(workspace):
    file = workspace.config("job")
    folder = workspace.folder / "job"
    commands = [worker(file, *LONG, TIMEOUT)] * 2
    with forked_job(workspace.folder, *commands) as first:
        first.wait_for("step     10/")
        pid = first.processes[0].pid
        assert_in_use(run("train", file, *settings(LONG)), folder, pid)
        with forked_job(workspace.folder, *commands) as second:
            assert second.codes() == [2, 2], second.text()
            assert f"is in use by process {pid} on " in complaint(second)
        first.signal(0, signal.SIGTERM)
        assert first.codes() == [0, 0], first.text()
    assert newest_checkpoint(folder).name == f"step-{len(metrics(folder)):08}"
    assert not (folder / "slimpack.lock").exists()


def test_where_there_are_no_locks_the_run_warns_and_goes_on(workspace, poor_file_system):
    file = workspace.config("unlocked")
    done = run("train", file, env=poor_file_system)
    assert done.returncode == 0, done.stderr
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 1
    assert "slimpack.lock' cannot be locked: No locks available" in warnings[0]
    assert len(metrics(workspace.folder / "unlocked")) == 3
