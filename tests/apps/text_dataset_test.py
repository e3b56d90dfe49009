"""Text becomes a dataset with a tokenizer, and the dataset trains as it is; tokens of two and of
four bytes train alike."""

import json
import random
import re
import subprocess
import sys
import sysconfig

import numpy as np
import pytest
from processes import PATIENCE, environment
from program import (LENGTHS, TOKENS, VOCABULARY, assert_refused, losses, metrics, read_documents,
                     run, settings)

STDLIB = sysconfig.get_paths()["stdlib"]
TYPE_CODES = {"<u2": 8, "<i4": 4}


def build(*arguments):
    """The tokenizing command; what it prints."""
    done = subprocess.run([sys.executable, "-m", "slimpack.data_build", *map(str, arguments)],
                          env=environment(), capture_output=True, text=True, timeout=PATIENCE,
                          check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_sources_become_a_tokenizer_and_a_dataset_and_train(workspace):
    prefix = workspace.folder / "sources"
    said = build("--from", f"{STDLIB}/json", f"{STDLIB}/email", "--glob", "*.py",
                 "--train-tokenizer", 512, "--out", prefix)
    assert "vocabulary: 512;" in said
    documents = read_documents(prefix)
    tokens = sum(map(len, documents))
    assert all(ids[-1] == 0 for ids in documents) and max(map(max, documents)) == 511

    done = run("data", "inspect", prefix)
    assert done.returncode == 0, done.stderr
    assert f"{len(documents)} documents, {tokens:,} tokens" in done.stdout

    done = run("train", workspace.config("of-sources", vocab_size=512),
               *settings([f"data.prefix={prefix}", "data.step_tokens=2000", "train.steps=2"]))
    assert done.returncode == 0, done.stderr
    assert len(metrics(workspace.folder / "of-sources")) == 2


CHAT_TEMPLATE = """{% for m in messages %}{{ m.role + '\\n' }}{% if m.role == 'assistant' %}{% generation %}
{{- m.content + '<|endoftext|>' }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}"""


def test_conversations_become_a_dataset_with_a_mask_and_train(workspace):
    folder = workspace.folder
    chats = [{"messages": [{"role": "user", "content": f"say {n} " * n}, {"role": "assistant", "content": f"{n}"}]}
             for n in range(1, 40)]
    (folder / "chats.jsonl").write_text("".join(json.dumps(chat) + "\n" for chat in chats))
    (folder / "chat.jinja").write_text(CHAT_TEMPLATE)
    build("--from", folder / "chats.jsonl", "--format", "text", "--train-tokenizer", 300, "--out", folder / "words")
    chosen = ["--tokenizer", folder / "words-tokenizer.json"]
    done = run("data", "build", "--chat", "--from", folder / "chats.jsonl", *chosen, "--chat-template",
               folder / "chat.jinja", "--out", folder / "chats")
    assert done.returncode == 0, done.stderr
    share = re.search(r"([\d.]+)% of the tokens are targets \(([\d,]+)\)", done.stdout)
    done = run("data", "inspect", folder / "chats")
    assert f"The mask makes {share[1]}% of the tokens targets ({share[2]}); every document has some." \
        in " ".join(done.stdout.split())
    done = run("data", "inspect", folder / "chats", "--show", 2, *chosen)
    assert "assistant\n⟦2<|endoftext|>⟧\n" in done.stdout, done.stderr
    done = run("train", workspace.config("of-chats", vocab_size=300),
               *settings([f"data.prefix={folder / 'chats'}", "data.step_tokens=500", "train.steps=2"]))
    assert done.returncode == 0, done.stderr
    assert len(metrics(folder / "of-chats")) == 2


def test_help_names_every_option_of_a_build_with_a_tokenizer():
    options = set(re.findall(r"^  (--[\w-]+)", build("--help"), re.MULTILINE))
    assert {"--tokenizer", "--train-tokenizer", "--field"} <= options
    text = run("data", "build", "--help").stdout
    assert [option for option in sorted(options) if option not in text] == []


def write_dataset(prefix, documents, dtype):
    """From the layout alone: header of 34 bytes, int32 lengths, int64 pointers, int64 indices."""
    lengths = np.array([len(ids) for ids in documents])
    pointers = (np.cumsum(lengths) - lengths) * np.dtype(dtype).itemsize
    counts = np.array([len(lengths), len(lengths) + 1], "<u8")
    prefix.with_name(prefix.name + ".idx").write_bytes(
        b"MMIDIDX\0\0" + (1).to_bytes(8, "little") + bytes([TYPE_CODES[dtype]]) + counts.tobytes()
        + lengths.astype("<i4").tobytes() + pointers.astype("<i8").tobytes()
        + np.arange(len(lengths) + 1, dtype="<i8").tobytes())
    prefix.with_name(prefix.name + ".bin").write_bytes(
        np.concatenate(documents).astype(dtype).tobytes())
    return prefix


def test_four_bytes_a_token_train_to_the_same_bits_as_two(workspace):
    prefix = write_dataset(workspace.folder / "wide", read_documents(workspace.folder / "corpus"),
                           "<i4")
    assert losses(workspace.train("four-bytes", f"data.prefix={prefix}")) \
        == losses(workspace.train("two-bytes"))


LARGE = 70_000  # a vocabulary beyond uint16


@pytest.fixture(scope="module", name="large")
def fixture_large(workspace):
    """Documents whose tokens are all beyond uint16: for a space 69,967."""
    documents = [[LARGE - 1 - token for token in ids]
                 for ids in read_documents(workspace.folder / "corpus")]
    assert min(map(min, documents)) > 65_535
    return write_dataset(workspace.folder / "large", documents, "<i4")


def test_tokens_beyond_uint16_train(workspace, large):
    folder = workspace.train("beyond", f"data.prefix={large}", "train.steps=2",
                             model=dict(vocab_size=LARGE))
    assert len(metrics(folder)) == 2
    noted = json.loads(large.with_name("large.checked.json").read_text())
    assert noted["largest"]["token"] == LARGE - 1 - ord(" ")
    assert noted["bin_bytes"] == 4 * TOKENS


@pytest.mark.parametrize("dtype, largest", [("<u2", 65_535), ("<i4", 69_999)])
def test_the_largest_tokens_are_found_before_the_first_step(workspace, dtype, largest):
    r = random.Random(2)
    documents = [[r.randrange(VOCABULARY) for _ in range(length)] for length in LENGTHS]
    documents[5][3] = largest
    prefix = write_dataset(workspace.folder / f"largest-{largest}", documents, dtype)
    done = run("train", workspace.config(f"finds-{largest}"), *settings([f"data.prefix={prefix}"]))
    assert_refused(done, prefix, f"document 5 holds token {largest} at position 3",
                   f"vocab_size is {VOCABULARY}")
