"""A build that is stopped goes on: the same bytes at the end, and nothing half-written before."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from processes import PATIENCE
from slimpack.text import batches, partial, workers
from text_data import (build, command, environment, files_of, left_in, read_megatron, run,
                       write_lines)

WORDS = "the cat and other mat sat on".split()


@pytest.fixture(scope="module", name="corpus")
def fixture_corpus(tmp_path_factory):
    """Folder with some 6 MB of documents of every format, as --from takes them."""
    folder = tmp_path_factory.mktemp("corpus")
    r = random.Random(1)
    texts = [" ".join(r.choices(WORDS, k=r.randrange(1, 4000))) for _ in range(800)]
    write_lines(folder / "a.jsonl", texts[:200])
    write_lines(folder / "b.jsonl.gz", texts[200:400])
    pq.write_table(pa.table({"text": texts[400:600]}), folder / "c.parquet", row_group_size=70)
    for i, text in enumerate(texts[600:]):
        (folder / f"d{i:03}.txt").write_text(text)
    return folder


@pytest.fixture(scope="module", name="whole")
def fixture_whole(corpus, tokenizer, tmp_path_factory):
    """The files of a build that nothing stops."""
    out = tmp_path_factory.mktemp("whole") / "c"
    assert build("--from", corpus, "--tokenizer", tokenizer, "--out", out, "--processes", 1) == 0
    return files_of(out)


def wait_for(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def noted_documents(folder):
    file = folder / "progress.json"
    return json.loads(file.read_text())["documents"] if file.exists() else 0


@pytest.mark.cases
@pytest.mark.parametrize("processes", [1, 3])
def test_killed_builds_go_on_to_the_same_bytes(corpus, tokenizer, whole, tmp_path, processes):
    """Killed each time that more of it has reached the disk. The number of processes may change."""
    arguments = ["--from", corpus, "--tokenizer", tokenizer, "--out", tmp_path / "c"]
    kills = 0
    for _ in range(3):
        before = noted_documents(tmp_path / "c.partial")
        with subprocess.Popen(command(*arguments, "--processes", processes), env=environment(),
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            wait_for(lambda: process.poll() is not None
                     or noted_documents(tmp_path / "c.partial") > before)
            process.kill()
            process.wait()
        if process.returncode != -signal.SIGKILL:
            break
        kills += 1
        assert not (tmp_path / "c.bin").exists() and not (tmp_path / "c.idx").exists()
    assert kills >= 1
    done = run(*arguments, "--processes", 4 - processes)
    assert done.returncode == 0
    assert done.stderr == "" or done.stderr.startswith("going on after ")
    assert files_of(tmp_path / "c") == whole
    assert left_in(tmp_path) == ["c.bin", "c.idx"]


class Killed(BaseException):
    """In place of a kill: nothing of the build runs after it."""


def stop_at_note(monkeypatch, count):
    """Ends the build when its state has been noted so often, after every batch."""
    note, close = partial.Partial.note, partial.Partial.close
    calls = []

    def count_and_stop(self):
        if len(calls) > count:
            return
        note(self)
        self.noted = -1e9
        calls.append(self.state.documents)
        if len(calls) == count:
            calls.append(None)
            close(self)
            raise Killed

    monkeypatch.setattr(partial.Partial, "note", count_and_stop)


@pytest.mark.parametrize("seed", range(12))
def test_a_build_stopped_after_any_batch_goes_on_to_the_same_bytes(
        corpus, tokenizer, whole, tmp_path, monkeypatch, seed):
    """Twice in a row, of some forty; what the files hold beyond the note is cut off."""
    monkeypatch.setattr(batches, "BATCH_BYTES", 150_000)
    arguments = ["--from", corpus, "--tokenizer", tokenizer, "--out", tmp_path / "c",
                 "--processes", 1]
    for stop_after in (seed * 5 % 37 + 1, seed % 3 + 1):
        with monkeypatch.context() as patch:
            stop_at_note(patch, stop_after)
            try:
                assert build(*arguments) == 0
            except Killed:
                for name in ("tokens.bin", "lengths.bin"):
                    with open(tmp_path / "c.partial" / name, "ab") as file:
                        file.write(b"\x01" * (17 + seed))
    if (tmp_path / "c.partial").exists():
        assert build(*arguments) == 0
    assert files_of(tmp_path / "c") == whole


@pytest.mark.cases
@pytest.mark.parametrize("done", range(4))
def test_a_build_killed_while_files_get_their_names_goes_on(
        corpus, tmp_path, monkeypatch, done):
    """After `done` of the three, and after all."""
    arguments = ["--from", corpus / "a.jsonl", "--train-tokenizer", 280, "--processes", 1, "--out"]
    assert build(*arguments, tmp_path / "whole") == 0
    rename, names = os.replace, []

    def rename_or_stop(old, new):
        if old.name in ("tokenizer.json", "tokens.bin", "index.idx"):
            if len(names) == done:
                raise Killed
            names.append(new.name)
        rename(old, new)

    with monkeypatch.context() as patch:
        patch.setattr(partial.os, "replace", rename_or_stop)
        patch.setattr(partial.Partial, "discard", stop)
        with pytest.raises(Killed):
            build(*arguments, tmp_path / "c")
    assert names == ["c-tokenizer.json", "c.bin", "c.idx"][:done]
    assert build(*arguments, tmp_path / "c") == 0
    assert files_of(tmp_path / "c") == files_of(tmp_path / "whole")
    assert not (tmp_path / "c.partial").exists()


def stop(*_):
    raise Killed


def test_a_tokenizer_is_trained_once(corpus, tmp_path, monkeypatch):
    arguments = ["--from", corpus / "a.jsonl", "--train-tokenizer", 280, "--processes", 1, "--out",
                 tmp_path / "c"]
    with monkeypatch.context() as patch:
        stop_at_note(patch, 1)
        with pytest.raises(Killed):
            build(*arguments)
    monkeypatch.setattr("slimpack.data_build.train", stop)
    assert build(*arguments) == 0


@pytest.fixture(name="begun")
def fixture_begun(corpus, tokenizer, tmp_path, monkeypatch):
    """Arguments of a build that was stopped; they go on."""
    copy = tmp_path / "in.jsonl"
    copy.write_bytes((corpus / "a.jsonl").read_bytes())
    arguments = dict([("--from", copy), ("--tokenizer", tokenizer), ("--out", tmp_path / "c")])
    with monkeypatch.context() as patch:
        stop_at_note(patch, 1)
        with pytest.raises(Killed):
            build(*(word for pair in arguments.items() for word in pair))
    return arguments


def other_size(begun):
    with open(begun["--from"], "ab") as file:
        file.write(b'{"text": "more"}\n')


def other_time(begun):
    os.utime(begun["--from"])


def other_name(begun):
    begun["--from"] = begun["--from"].rename(begun["--from"].with_name("renamed.jsonl"))


def other_tokenizer(begun):
    changed = begun["--out"].with_name("t.json")
    changed.write_text(begun["--tokenizer"].read_text() + "\n")
    begun["--tokenizer"] = changed


@pytest.mark.cases
@pytest.mark.parametrize("change, parts", [
    (other_size, ["in.jsonl' has changed"]),
    (other_time, ["in.jsonl' has changed"]),
    (other_name, ["in.jsonl' was given, in its place is", "renamed.jsonl"]),
    (other_tokenizer, ["--tokenizer was"]),
    (lambda begun: begun.update({"--field": "body"}), ['--field was "text" and is "body" now']),
    (lambda begun: begun.update({"--format": "jsonl"}), ['--format was "auto"']),
    (lambda begun: begun.update({"--eod-token": "t"}),
     ['--eod-token was "<|endoftext|>" and is "t" now']),
])
def test_other_arguments_and_changed_inputs_are_refused(begun, change, parts, capsys):
    change(begun)
    arguments = [word for pair in begun.items() for word in pair]
    assert build(*arguments) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "--restart" in said and "c.partial' holds a build" in said
    for part in parts:
        assert part in said


def test_a_build_begins_anew_on_request(begun, capsys):
    other_size(begun)
    arguments = [word for pair in begun.items() for word in pair]
    assert build(*arguments, "--restart") == 0
    assert "going on" not in capsys.readouterr().err
    assert len(read_megatron(begun["--out"])[1]) == 201
    assert not begun["--out"].with_name("c.partial").exists()


@pytest.mark.cases
@pytest.mark.parametrize("name, text", [("build.json", "{"), ("build.json", "[]"),
                                        ("progress.json", "{}"), ("progress.json", "null"),
                                        ("tokens.bin", ""), ("lengths.bin", "")])
def test_a_damaged_build_is_refused_and_can_begin_anew(begun, name, text, capsys):
    (begun["--out"].with_name("c.partial") / name).write_text(text)
    arguments = [word for pair in begun.items() for word in pair]
    assert build(*arguments) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and f"c.partial/{name}'" in said and "--restart" in said
    assert build(*arguments, "--restart") == 0
    assert len(read_megatron(begun["--out"])[1]) == 200


def test_a_folder_of_somebody_else_is_left_alone(tokenizer, corpus, tmp_path, capsys):
    (tmp_path / "c.partial").mkdir()
    (tmp_path / "c.partial" / "precious.txt").write_text("mine")
    arguments = ["--from", corpus / "a.jsonl", "--tokenizer", tokenizer, "--out", tmp_path / "c"]
    for more in ([], ["--restart"]):
        assert build(*arguments, *more) == 2
        assert "holds 'precious.txt' and no build.json" in capsys.readouterr().err
    assert (tmp_path / "c.partial" / "precious.txt").read_text() == "mine"


def test_two_builds_of_one_name_do_not_mix(corpus, tokenizer, tmp_path, capsys):
    arguments = ["--from", corpus / "a.jsonl", "--tokenizer", tokenizer, "--out", tmp_path / "c"]
    (tmp_path / "c.partial").mkdir()
    held = partial.lock(tmp_path / "c.partial")
    assert build(*arguments) == 2
    assert "another process is at work in" in capsys.readouterr().err
    os.close(held)
    assert build(*arguments) == 0


WORKERS = """
from slimpack.text.workers import Worker

if __name__ == "__main__":
    for worker in [Worker(dict) for _ in range(2)]:
        with open(f"/proc/{worker.process.pid}/status") as status:
            print(*(line for line in status if line.startswith("SigBlk")))
        worker.stop()
"""


def test_no_worker_is_interrupted_by_ctrl_c(tmp_path):
    """The first one neither, before which multiprocessing starts its tracker of resources."""
    (tmp_path / "start.py").write_text(WORKERS)
    said = subprocess.run([sys.executable, tmp_path / "start.py"], env=environment(), check=True,
                          capture_output=True, text=True, timeout=PATIENCE).stdout
    blocked = [int(line.split()[1], 16) for line in said.splitlines() if line]
    assert [mask >> (signal.SIGINT - 1) & 1 for mask in blocked] == [1, 1]


def test_ctrl_c_keeps_what_is_done(corpus, tokenizer, tmp_path):
    arguments = ["--from", *[corpus] * 4, "--tokenizer", tokenizer, "--out", tmp_path / "c"]
    with subprocess.Popen(command(*arguments, "--processes", 2), env=environment(),
                          start_new_session=True, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: noted_documents(tmp_path / "c.partial") > 0)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal sends it, to the workers too
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert said == "slimpack: stopped on request; the same command goes on from here\n"
    assert run(*arguments).returncode == 0
    assert len(read_megatron(tmp_path / "c")[1]) == 3200


def test_a_process_that_is_lost_ends_the_build_and_what_is_done_stays(
        corpus, tokenizer, tmp_path, capsys, monkeypatch):
    send, sent = workers.Worker.send, []

    def send_or_kill(self, number, batch):
        sent.append(number)
        if number == 4:
            self.process.kill()
            self.process.join()
        send(self, number, batch)

    arguments = ["--from", corpus, "--tokenizer", tokenizer, "--out", tmp_path / "c",
                 "--processes", 2]
    with monkeypatch.context() as patch:
        patch.setattr(workers.Worker, "send", send_or_kill)
        assert build(*arguments) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith("slimpack: failed: a process that encodes")
    assert "signal 9" in said and "--processes" in said
    assert build(*arguments) == 0
    assert len(read_megatron(tmp_path / "c")[1]) == 800


def test_no_process_outlives_a_killed_build(corpus, tokenizer, tmp_path):
    with subprocess.Popen(command("--from", *[corpus] * 4, "--tokenizer", tokenizer, "--out",
                                  tmp_path / "c", "--processes", 2), env=environment()) as process:
        wait_for(lambda: noted_documents(tmp_path / "c.partial") > 0)
        children = {int(pid) for task in os.listdir(f"/proc/{process.pid}/task")
                    for pid in open(f"/proc/{process.pid}/task/{task}/children").read().split()}
        process.kill()
    assert len(children) >= 2
    wait_for(lambda: not any(is_running(pid) for pid in children))


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
