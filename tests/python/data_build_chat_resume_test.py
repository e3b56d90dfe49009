"""A build of conversations that is stopped goes on: the same bytes of tokens and mask, and neither under its name
before both are complete."""

import os
import random
import signal
import subprocess

import pytest
from chat_data import STYLES, files_of_chat, make_folder, random_messages, write_objects
from data_build_resume_test import Killed, noted_documents, stop_at_note, wait_for
from processes import environment
from slimpack.text import batches, partial
from text_data import build, command, left_in, run

NAMES = ["c.bin", "c.idx", "c.mask.bin", "c.mask.idx"]


def made(folder, count):
    """(arguments of a build but for its name, the files of one that nothing stops). A field that is not read makes
    batches of few conversations."""
    model = make_folder(folder / "model", STYLES["qwen-3"])
    r = random.Random(1)
    write_objects(folder / "in.jsonl", [{"messages": random_messages(r), "id": "x" * 3000} for _ in range(count)])
    arguments = ["--chat", "--from", folder / "in.jsonl", "--tokenizer", model]
    assert build(*arguments, "--processes", 1, "--out", folder / "whole") == 0
    return arguments, files_of_chat(folder / "whole")


@pytest.fixture(scope="module", name="corpus")
def fixture_corpus(tmp_path_factory):
    return made(tmp_path_factory.mktemp("chats"), 200)


@pytest.fixture(scope="module", name="large")
def fixture_large(tmp_path_factory):
    """Takes some seconds."""
    return made(tmp_path_factory.mktemp("chats"), 1200)


@pytest.mark.parametrize("processes", [1, 3])
def test_killed_builds_go_on_to_the_same_bytes(large, tmp_path, processes):
    arguments, whole = large
    arguments = [*arguments, "--out", tmp_path / "c"]
    with subprocess.Popen(command(*arguments, "--processes", processes), env=environment(),
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        wait_for(lambda: process.poll() is not None or noted_documents(tmp_path / "c.partial") > 0)
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL and left_in(tmp_path) == ["c.partial"]
    done = run(*arguments, "--processes", 4 - processes)
    assert done.returncode == 0 and done.stderr.startswith("going on after ")
    assert done.stderr.endswith(" conversations\n")
    assert files_of_chat(tmp_path / "c") == whole and left_in(tmp_path) == NAMES


@pytest.mark.parametrize("seed", range(6))
def test_a_build_stopped_after_any_batch_goes_on_to_the_same_bytes(corpus, tmp_path, monkeypatch, seed):
    """The next start cuts off what the files hold beyond the note."""
    arguments, whole = corpus
    monkeypatch.setattr(batches, "BATCH_BYTES", 60_000)
    arguments = [*arguments, "--out", tmp_path / "c", "--processes", 1]
    with monkeypatch.context() as patch:
        stop_at_note(patch, seed + 1)
        with pytest.raises(Killed):
            build(*arguments)
    for name in ("tokens.bin", "lengths.bin", "mask.bin"):
        with open(tmp_path / "c.partial" / name, "ab") as file:
            file.write(b"\1" * (17 + seed))
    assert build(*arguments) == 0
    assert files_of_chat(tmp_path / "c") == whole


@pytest.mark.parametrize("done", range(5))
def test_the_mask_has_its_name_before_the_tokens_have_theirs(corpus, tmp_path, monkeypatch, done):
    """Killed after `done` of the four files."""
    arguments, whole = corpus
    rename, names = os.replace, []

    def rename_or_stop(old, new):
        if old.name in ("mask.bin", "mask.idx", "tokens.bin", "index.idx"):
            if len(names) == done:
                raise Killed
            names.append(new.name)
        rename(old, new)

    def stop(_):
        raise Killed

    arguments = [*arguments, "--out", tmp_path / "c", "--processes", 1]
    with monkeypatch.context() as patch:
        patch.setattr(partial.os, "replace", rename_or_stop)
        patch.setattr(partial.Partial, "discard", stop)
        with pytest.raises(Killed):
            build(*arguments)
    assert names == ["c.mask.bin", "c.mask.idx", "c.bin", "c.idx"][:done]
    assert build(*arguments) == 0
    assert files_of_chat(tmp_path / "c") == whole and left_in(tmp_path) == NAMES


@pytest.mark.parametrize("change, parts", [
    (["--loss-on", "all"], ['--loss-on was "assistant" and is "all" now']),
    (["--field", "other"], ['--field was "messages" and is "other" now']),
    (["--chat-template", "TEMPLATE"], ["the chat template was"]),
    (None, ['--loss-on was "assistant" and is null now']),
])
def test_other_arguments_are_refused(corpus, tmp_path, monkeypatch, capsys, change, parts):
    arguments, _ = corpus
    (tmp_path / "own.jinja").write_text("{{ messages[0].content }}")
    arguments = [*arguments, "--out", tmp_path / "c", "--processes", 1]
    with monkeypatch.context() as patch:
        stop_at_note(patch, 1)
        with pytest.raises(Killed):
            build(*arguments)
    if change is None:  # as text
        arguments = arguments[1:]
    else:
        arguments += [tmp_path / "own.jinja" if word == "TEMPLATE" else word for word in change]
    assert build(*arguments) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "--restart" in told and all(part in told for part in parts), told


def test_a_template_that_writes_the_day_is_not_gone_on_with_on_another(tmp_path, monkeypatch, capsys):
    """The text of the second half would have another day than that of the first."""
    from slimpack.text import chat_encoding
    model = make_folder(tmp_path / "model", STYLES["qwen-3"], template="{{ strftime_now('%d %b %Y') }}"
                        + STYLES["qwen-3"].text(False))
    r = random.Random(2)
    write_objects(tmp_path / "in.jsonl", [{"messages": random_messages(r)} for _ in range(9)])
    arguments = ["--chat", "--from", tmp_path / "in.jsonl", "--tokenizer", model, "--out", tmp_path / "c",
                 "--processes", 1]
    with monkeypatch.context() as patch:
        stop_at_note(patch, 1)
        with pytest.raises(Killed):
            build(*arguments)

    class Tomorrow:
        class date:
            today = staticmethod(lambda: "2999-01-01")

    with monkeypatch.context() as patch:
        patch.setattr(chat_encoding, "datetime", Tomorrow)
        assert build(*arguments) == 2
        assert 'and is "2999-01-01" now' in capsys.readouterr().err
    assert build(*arguments) == 0
