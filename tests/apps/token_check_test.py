"""Tokens that the model does not know are found before the first step, and reading a dataset once is
enough."""

import json
import os
import shutil

import pytest
from forking import forked_job
from program import (LENGTHS, TOKENS, VOCABULARY, assert_refused, losses, run, settings)

ONE_DOCUMENT = ["data.step_tokens=1"]  # a step


def note(prefix):
    return json.loads(prefix.with_name(prefix.name + ".checked.json").read_text())


def train(workspace, output, prefix, *overrides, **model):
    return run("train", workspace.config(output, **model),
               *settings([*ONE_DOCUMENT, f"data.prefix={prefix}", *overrides]))


def test_a_bad_token_of_a_later_step_is_found_before_the_first(workspace):
    prefix, document = workspace.spoil_third_step("bad-token")
    for _ in range(2):  # found, and remembered
        done = train(workspace, "never-begun", prefix)
        assert_refused(done, prefix, f"document {document} holds token {VOCABULARY} at position 0",
                       f"vocab_size is {VOCABULARY}", "never-begun-model.json", "tokenizer")
        assert not (workspace.folder / "never-begun").exists()
    assert note(prefix)["largest"] == {"token": VOCABULARY, "document": document, "position": 0}
    # To a model with one token more, the same note says that nothing is wrong.
    done = train(workspace, "knows-more", prefix, vocab_size=VOCABULARY + 1)
    assert done.returncode == 0, done.stderr


def test_a_negative_token_is_found_before_the_first_step(workspace):
    """Stored as int16 (dtype code 3): -2 at the end of the document of the third step."""
    prefix, document = workspace.spoil_third_step("negative")
    index = bytearray(prefix.with_suffix(".idx").read_bytes())
    index[17] = 3
    prefix.with_suffix(".idx").write_bytes(index)
    end = sum(LENGTHS[: document + 1]) + document + 1  # tokens up to its end: bytes and an end each
    tokens = bytearray(prefix.with_suffix(".bin").read_bytes())
    tokens[2 * end - 2 : 2 * end] = (-2).to_bytes(2, "little", signed=True)
    prefix.with_suffix(".bin").write_bytes(tokens)
    done = train(workspace, "negative-run", prefix)
    assert_refused(done, f"document {document} holds -2 at position {LENGTHS[document]}",
                   "build the dataset again")


def test_a_dataset_is_read_once_until_it_changes(workspace):
    prefix = workspace.copy_corpus("read-once")
    assert train(workspace, "first-reading", prefix).returncode == 0
    file = prefix.with_name("read-once.checked.json")
    noted = note(prefix)
    assert noted["bin_bytes"] == 2 * TOKENS
    assert (noted["smallest"]["token"], noted["largest"]["token"]) == (ord(" "), VOCABULARY - 1)
    # The note is believed, whatever the tokens are ...
    file.write_text(json.dumps({**noted, "largest": {"token": 999, "document": 3, "position": 0}}))
    assert_refused(train(workspace, "believing", prefix), "document 3 holds token 999")
    # ... as long as the file of tokens is the one that was read.
    os.utime(prefix.with_suffix(".bin"))
    done = train(workspace, "second-reading", prefix)
    assert done.returncode == 0, done.stderr
    assert note(prefix)["largest"] == noted["largest"]


def test_where_the_datasets_folder_cannot_be_written_the_run_has_the_note(workspace):
    prefix = workspace.copy_corpus("not-writable")
    prefix.with_name("not-writable.checked.json").mkdir()  # root may write anywhere else
    assert train(workspace, "has-note", prefix).returncode == 0
    file = workspace.folder / "has-note" / "data.checked.json"
    noted = json.loads(file.read_text())
    file.write_text(json.dumps({**noted, "largest": {"token": 999, "document": 3, "position": 0}}))
    shutil.rmtree(workspace.folder / "has-note" / "checkpoints")
    assert_refused(train(workspace, "has-note", prefix), "document 3 holds token 999")


def test_a_note_that_is_damaged_is_written_anew(workspace):
    prefix = workspace.copy_corpus("damaged-note")
    prefix.with_name("damaged-note.checked.json").write_text("{")
    assert train(workspace, "mends-note", prefix).returncode == 0
    assert note(prefix)["largest"]["token"] == VOCABULARY - 1


def test_held_out_documents_are_checked_before_the_first_step(workspace):
    prefix, document = workspace.spoil_third_step("bad-held-out")
    done = run("train", workspace.config("held-out"),
               *settings([f"evaluation.prefix={prefix}", "evaluation.every=1"]))
    assert_refused(done, prefix, f"document {document} holds token {VOCABULARY} at position 0")
    assert not (workspace.folder / "held-out" / "metrics.jsonl").exists()


@pytest.mark.parametrize("ranks", [2])
def test_all_processes_end_with_what_the_first_has_found(workspace, ranks):
    prefix, document = workspace.spoil_third_step("bad-for-all")
    command = ["-m", "slimpack.worker", workspace.config("all-end"),
               *settings([*ONE_DOCUMENT, "parallel.pp=2", f"data.prefix={prefix}"])]
    with forked_job(workspace.folder, *[command] * ranks) as processes:
        assert processes.codes() == [2] * ranks, processes.text()
    lines = [s for s in processes.text().splitlines() if s.startswith("slimpack: ")]
    assert len(lines) == 1 and f"document {document} holds token 257 at position 0" in lines[0]
    assert not (workspace.folder / "all-end").exists()


def test_reading_changes_no_bit_of_a_run(workspace):
    prefix = workspace.copy_corpus("same-bits")
    assert train(workspace, "reads", prefix).returncode == 0
    assert train(workspace, "remembers", prefix).returncode == 0
    assert losses(workspace.folder / "reads") == losses(workspace.folder / "remembers")
