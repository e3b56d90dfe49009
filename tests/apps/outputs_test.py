"""Where output goes: links, pipes and devices are written and stay what they are; a standard output
that is full or closed is an error; what ends a command leaves nothing half-written."""

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest
from processes import environment
from program import (LENGTHS, SLIMPACK, assert_failed, assert_refused, newest_checkpoint, run,
                     with_full_disk, worker)

# Minor numbers of the kernel's memory devices. Tests make nodes of their own, so that a program
# that replaces them does no harm.
NULL, FULL = 3, 7


def device(path, minor):
    """A device node, or the end of the test where none can be made or used."""
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, minor))
        os.close(os.open(path, os.O_WRONLY))
    except PermissionError:
        pytest.skip("no devices can be made here")
    return path


@pytest.fixture
def lengths(tmp_path):
    file = tmp_path / "lengths.txt"
    file.write_text("".join(f"{n}\n" for n in LENGTHS))
    return file


@pytest.fixture
def figures(lengths, tmp_path):
    """The figures that --json writes for the list."""
    file = tmp_path / "figures.json"
    assert run("data", "inspect", "--lengths", lengths, "--json", file).returncode == 0
    return file.read_text()


def test_a_link_is_followed_and_stays_a_link(lengths, figures, tmp_path):
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "real.json").chmod(0o640)
    (tmp_path / "link.json").symlink_to("real.json")
    (tmp_path / "dangling.json").symlink_to("folder/later.json")
    for name in ("link.json", "dangling.json"):
        done = run("data", "inspect", "--lengths", lengths, "--json", tmp_path / name)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / name).read_text() == figures
    assert stat.S_IMODE((tmp_path / "real.json").stat().st_mode) == 0o640
    assert not list(tmp_path.rglob("*.tmp*"))


def test_a_device_stays_a_device(lengths, tmp_path):
    null = device(tmp_path / "null", NULL)
    done = run("data", "inspect", "--lengths", lengths, "--json", null)
    assert done.returncode == 0, done.stderr
    assert null.is_char_device()


def test_a_device_that_is_full_fails_the_run_and_stays_a_device(workspace, tmp_path):
    full = device(tmp_path / "full", FULL)
    done = run("plan", workspace.config("full-device"), "--out", full)
    assert_failed(done, "full", "No space left on device")
    assert full.is_char_device()
    assert [p.name for p in tmp_path.iterdir()] == ["full"]


def test_a_dataset_does_not_go_to_a_device(workspace, tmp_path):
    null = device(tmp_path / "null.bin", NULL)
    done = run("data", "build", "--from", workspace.folder / "text", "--out", tmp_path / "null")
    assert_refused(done, "null.bin", "not a regular file")
    assert null.is_char_device()
    assert [p.name for p in tmp_path.iterdir()] == ["null.bin"]


def test_a_pipe_gets_the_text_and_stays_a_pipe(lengths, figures, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()), daemon=True)
    reader.start()
    done = run("data", "inspect", "--lengths", lengths, "--json", pipe)
    assert done.returncode == 0, done.stderr
    reader.join(60)
    assert got == [figures]
    assert pipe.is_fifo()


def test_a_process_substitution_gets_the_text(lengths, figures):
    ours, theirs = os.pipe()
    done = run("data", "inspect", "--lengths", lengths, "--json", f"/dev/fd/{theirs}",
               pass_fds=[theirs])
    assert done.returncode == 0, done.stderr
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        assert pipe.read() == figures


def test_standard_output_takes_figures_and_report_one_after_the_other(lengths, figures, tmp_path):
    """Standard output may be a file, too, which must not be replaced under the report's feet."""
    report = run("data", "inspect", "--lengths", lengths).stdout
    link = tmp_path / "stdout"
    link.symlink_to("/proc/self/fd/1")
    with (tmp_path / "both").open("w") as out:
        done = subprocess.run([SLIMPACK, "data", "inspect", "--lengths", lengths, "--json", link],
                              stdout=out, timeout=60, check=False)
    assert done.returncode == 0
    assert (tmp_path / "both").read_text() == figures + report


def test_lengths_come_from_standard_input_and_from_pipes(workspace, lengths, tmp_path):
    file = workspace.config("piped")
    done = run("plan", file, "--lengths", lengths, "--out", tmp_path / "file.json")
    assert done.returncode == 0, done.stderr
    done = run("plan", file, "--lengths", "-", "--out", tmp_path / "stdin.json",
               input=lengths.read_text())
    assert done.returncode == 0, done.stderr
    assert "standard input" in done.stdout
    ours, theirs = os.pipe()
    os.write(theirs, lengths.read_bytes())
    os.close(theirs)
    done = run("plan", file, "--lengths", f"/dev/fd/{ours}", "--out", tmp_path / "pipe.json",
               pass_fds=[ours])
    os.close(ours)
    assert done.returncode == 0, done.stderr
    expected = (tmp_path / "file.json").read_text()
    assert (tmp_path / "stdin.json").read_text() == expected
    assert (tmp_path / "pipe.json").read_text() == expected


def test_lengths_that_cannot_be_read_are_named(workspace, tmp_path):
    assert_refused(run("data", "inspect", "--lengths", tmp_path), tmp_path, "Is a directory")
    assert_refused(run("data", "inspect", "--lengths", "-", input="five\n"), "standard input",
                   "'five'")


COMMANDS = {
    "help": ["--help"],
    "help of a command": ["train", "--help"],
    "print-config": ["train", "--print-config"],
    "inspect": ["data", "inspect", "corpus"],
    "build": ["data", "build", "--from", "text", "--out", "again"],
    "plan": ["plan", "RUN", "--out", "plan.json"],
    "simulate": ["simulate", "given.json"],
    "compare": ["compare", "RUN", "--lengths", "lengths.txt", "--only", "slimpack"],
    "fit": ["fit", "RUN"],
    "train": ["train", "RUN"],
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("how", ["full", "closed"])
def test_a_standard_output_that_takes_nothing_is_an_error(workspace, tmp_path, name, how):
    output = f"{how}-{name.replace(' ', '-')}"
    file = workspace.config(output)
    (workspace.folder / "lengths.txt").write_text("100\n200\n")
    if name == "simulate":
        done = run("plan", file, "--out", workspace.folder / "given.json")
        assert done.returncode == 0, done.stderr
    command = [SLIMPACK, *(file if word == "RUN" else word for word in COMMANDS[name])]
    full = os.open("/dev/full", os.O_WRONLY)
    before = (lambda: os.dup2(full, 1)) if how == "full" else (lambda: os.close(1))
    done = subprocess.run(command, cwd=workspace.folder, stderr=subprocess.PIPE, text=True,
                          timeout=60, check=False, preexec_fn=before, pass_fds=[full])
    os.close(full)
    cause = "No space left on device" if how == "full" else "Bad file descriptor"
    assert done.returncode == 1, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("slimpack: ")]
    assert lines == [f"slimpack: failed: cannot write to standard output: {cause}; "
                     "redirect it elsewhere"], done.stderr
    if name == "train":  # what it was to do is done
        assert newest_checkpoint(workspace.folder / output).name == "step-00000003"


def test_a_standard_output_that_takes_nothing_is_an_error_of_a_worker_too(workspace):
    place = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, *worker(workspace.config("worker"))], stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=120, check=False,
                              env=environment() | place)
    assert done.returncode == 1, done.stderr
    assert done.stderr.splitlines()[-1].startswith(
        "slimpack: rank 0: cannot write to standard output: No space left on device")
    assert newest_checkpoint(workspace.folder / "worker").name == "step-00000003"


def test_what_is_printed_does_not_land_in_a_file_that_took_the_place_of_standard_output(
        workspace, tmp_path):
    file = workspace.config("closed")
    assert run("plan", file, "--out", tmp_path / "whole.json").returncode == 0
    done = subprocess.run([SLIMPACK, "plan", file, "--out", tmp_path / "plan.json"], check=False,
                          stderr=subprocess.DEVNULL, timeout=60, preexec_fn=lambda: os.close(1))
    assert done.returncode == 1
    assert (tmp_path / "plan.json").read_text() == (tmp_path / "whole.json").read_text()


def test_messages_to_a_closed_standard_error_go_nowhere(workspace, tmp_path):
    file = workspace.config("closed-stderr")
    done = subprocess.run([SLIMPACK, "train", file], check=False, stdout=subprocess.PIPE,
                          timeout=60, preexec_fn=lambda: os.close(2))
    assert done.returncode == 0
    assert b"in 3 steps" in done.stdout


def test_a_reader_that_has_seen_enough_ends_the_program_without_a_word(workspace):
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run([SLIMPACK, "train", "--print-config"], stdout=theirs,
                          stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(theirs)
    assert done.returncode == -signal.SIGPIPE
    assert done.stderr == ""


def test_a_limit_of_file_sizes_is_one_line_and_leaves_nothing(workspace, tmp_path):
    done = with_full_disk(100, "data", "build", "--from", workspace.folder / "text",
                          "--out", tmp_path / "set")
    assert_failed(done, "set.bin", "File too large", "ulimit -f")
    assert not list(tmp_path.iterdir())


def files_open_below(process, folder):
    """The files below the folder that the process writes, under names or without."""
    found = []
    for entry in os.scandir(f"/proc/{process.pid}/fd"):
        try:
            target = os.readlink(entry.path)
        except FileNotFoundError:
            continue
        if target.startswith(f"{folder}/"):
            found.append(target)
    return found


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_build_that_is_stopped_leaves_nothing(tmp_path, how):
    try:
        os.close(os.open(tmp_path, os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        pytest.skip("this file system has no files without names")
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    for i in range(8):  # about a second's work
        with (source / str(i)).open("wb") as file:
            file.truncate(20_000_000)
    with subprocess.Popen([SLIMPACK, "data", "build", "--from", source, "--out", target / "set"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        end = time.monotonic() + 60
        while process.poll() is None and not files_open_below(process, target):
            assert time.monotonic() < end
        process.send_signal(how)
        assert process.wait(60) == -how
    assert not list(target.iterdir())


def test_a_dataset_built_among_its_own_files_is_the_same_twice(tmp_path):
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "set.bin.tmp123").write_text("of a build that was killed")
    build = ["data", "build", "--from", tmp_path, "--out", tmp_path / "set"]
    first = run(*build)
    assert first.returncode == 0, first.stderr
    files = [tmp_path / "set.bin", tmp_path / "set.idx"]
    before = [file.read_bytes() for file in files]
    second = run(*build)
    assert second.returncode == 0, second.stderr
    assert [file.read_bytes() for file in files] == before
    assert "1 document," in second.stdout
    for name in ("set.bin", "set.idx", "set.bin.tmp123"):
        assert f"skipped '{tmp_path / name}': belongs to the dataset that is written" in (
            second.stderr)


def test_where_temporary_files_need_names_outputs_are_the_same(poor_file_system, lengths, figures,
                                                               tmp_path):
    done = run("data", "inspect", "--lengths", lengths, "--json", tmp_path / "named.json",
               env=poor_file_system)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "named.json").read_text()) == json.loads(figures)
    done = with_full_disk(100, "data", "inspect", "--lengths", lengths, "--json",
                          tmp_path / "none" / "figures.json", env=poor_file_system)
    assert_failed(done, "none/figures.json", "File too large")
    assert not list((tmp_path / "none").iterdir())
