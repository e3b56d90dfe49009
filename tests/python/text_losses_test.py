"""Text that a tokenizer would lose, and files with marks of UTF-8 or unusual names."""

import gzip
import json
import os

import pytest
from slimpack.text.losses import Losses
from text_data import build, files_of, ids_alone, read_megatron, write_lines
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing

LETTERS = {letter: id for id, letter in enumerate("abcdefghijklmnopqrstuvwxyz ")}
BYTES = {f"<0x{byte:02X}>": 100 + byte for byte in range(256)}
ALPHABET = {letter: id for id, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}


def bpe_of(vocabulary, pre_tokenizer=None, normalizer=None, **settings):
    tokenizer = Tokenizer(models.BPE(vocabulary, [], **settings))
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    return tokenizer


BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False)
WITHOUT_B = {letter: id for letter, id in ALPHABET.items() if letter != "b"}


@pytest.mark.parametrize("tokenizer, lost", [
    (bpe_of(LETTERS), 7),  # \n 日 本 ! é é <
    (bpe_of(LETTERS, pre_tokenizers.WhitespaceSplit()), 6),  # white space parts words, and decoders put it back
    (bpe_of({**LETTERS, "<unk>": 50}, unk_token="<unk>"), 0),
    (bpe_of({**LETTERS, **BYTES}, byte_fallback=True), 0),
    (bpe_of({**LETTERS, **{name: id for name, id in BYTES.items() if name != "<0xE6>"}}, byte_fallback=True), 2),
    (bpe_of(ALPHABET, BYTE_LEVEL), 0),
    (bpe_of(WITHOUT_B, BYTE_LEVEL), 1),
    (bpe_of(LETTERS, pre_tokenizers.WhitespaceSplit(), normalizers.Sequence([
        normalizers.NFD(), normalizers.StripAccents()])), 4),  # é becomes e
    (bpe_of({**LETTERS, "▁": 60}, pre_tokenizers.Metaspace()), 7),
    (Tokenizer(models.WordLevel({"a": 0, "<unk>": 1}, unk_token="<unk>")), 0),
], ids=range(10))
def test_characters_without_a_token_are_counted(tokenizer, lost):
    tokenizer.add_special_tokens([AddedToken("<|!|>", special=True)])
    assert Losses(tokenizer).of("a b\n日本<|!|>!éé<") == lost
    assert Losses(tokenizer).of("ace") == 0


def test_a_build_says_what_has_no_token(tmp_path, capsys):
    tokenizer = bpe_of(LETTERS)
    tokenizer.save(str(tmp_path / "t.json"))
    source = write_lines(tmp_path / "in.jsonl", ["plain", "日本 tea", "日本", "a!"])
    for processes in (1, 2):
        assert build("--from", source, "--tokenizer", tmp_path / "t.json", "--out", tmp_path / "c",
                     "--processes", processes) == 0
        said = capsys.readouterr().out
        assert (f"5 characters in 3 documents have no token and are lost, the first in '{source}': line 2; a "
                "tokenizer with tokens for bytes keeps them\n") in said
        assert f"1 document without text left out, the first: '{source}': line 3\n" in said
        assert len(read_megatron(tmp_path / "c")[1]) == 3


def test_dropout_of_a_tokenizer_is_left_out(tmp_path, tokenizer, capsys):
    settings = json.loads(tokenizer.read_text())
    settings["model"]["dropout"] = 0.5
    (tmp_path / "t.json").write_text(json.dumps(settings))
    source = write_lines(tmp_path / "in.jsonl", ["the cat sat on the mat"] * 50)
    assert build("--from", source, "--tokenizer", tmp_path / "t.json", "--out", tmp_path / "c") == 0
    assert "the tokenizer's dropout is left out" in capsys.readouterr().out
    assert read_megatron(tmp_path / "c")[1] == ids_alone(tokenizer, ["the cat sat on the mat"] * 50)


END = "<|im_end|>"


@pytest.mark.parametrize("text, ids", [
    ("a b", [0, 1, 2]),
    (f"a {END}", [0, 2]),
    (f"a {END}\n", [0, 2]),
    (f"a {END} \n\n", [0, 2]),
    (f"{END}", [2]),
    (f"a {END} b", [0, 2, 1, 2]),
    (f"a {END} {END}", [0, 2, 2]),  # as it is written
])
@pytest.mark.parametrize("puts_itself", [False, True])
def test_an_end_that_a_text_has_is_not_put_twice(tmp_path, capsys, text, ids, puts_itself):
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1, END: 2}, unk_token="b"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([AddedToken(END, special=True)])
    if puts_itself:
        tokenizer.post_processor = TemplateProcessing(single=f"$A {END}", special_tokens=[(END, 2)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": END}))
    (tmp_path / "in.txt").write_text(text)
    assert build("--from", tmp_path / "in.txt", "--tokenizer", tmp_path, "--out", tmp_path / "c") == 0
    assert read_megatron(tmp_path / "c")[1] == [ids]
    said = capsys.readouterr().out
    assert f"each document ends with {END} (token 2)\n" in said
    has_end = text.strip().endswith(END)
    assert ("1 document had it at the end of the text already; it is not put twice" in said) == has_end


TEXTS = ["the cat", "sat\n", "\ufeffinside"]
MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("name", [
    "in.jsonl", "in.ndjson", "IN.JSONL", "in.NdJson", "in.jsonlines", "in.jsonl.gz", "in.ndjson.gz", "IN.JSONL.GZ"])
@pytest.mark.parametrize("marks", ["none", "first", "all"])
def test_json_lines_are_known_by_every_name_and_with_marks(tmp_path, tokenizer, name, marks):
    lines = [json.dumps({"text": text}).encode() for text in TEXTS]
    lines = [MARK + line if marks == "all" or (marks == "first" and i == 0) else line
             for i, line in enumerate(lines)]
    data = b"\r\n".join(lines)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.lower().endswith("gz") else data)
    assert build("--from", tmp_path / name, "--tokenizer", tokenizer, "--out", tmp_path / "c") == 0
    assert read_megatron(tmp_path / "c")[1] == ids_alone(tokenizer, TEXTS)


def test_the_mark_of_a_text_file_is_no_text(tmp_path, tokenizer, capsys):
    for number, data in enumerate([MARK + b"the cat", MARK, b"the " + MARK + b"cat"]):
        (tmp_path / f"{number}.txt").write_bytes(data)
    assert build("--from", tmp_path, "--glob", "*.txt", "--tokenizer", tokenizer, "--out", tmp_path / "c") == 0
    assert read_megatron(tmp_path / "c")[1] == ids_alone(tokenizer, ["the cat", "the \ufeffcat"])
    assert "1 document without text left out" in capsys.readouterr().out


def test_a_tokenizer_with_a_mark_is_read(tmp_path, tokenizer):
    (tmp_path / "t.json").write_bytes(MARK + tokenizer.read_bytes())
    (tmp_path / "tokenizer_config.json").write_bytes(MARK + b'{"eos_token": "<|endoftext|>"}')
    (tmp_path / "in.txt").write_text("the cat")
    for name, out in (("t.json", "a"), (tokenizer, "b")):
        assert build("--from", tmp_path / "in.txt", "--tokenizer", tmp_path / name, "--out", tmp_path / out) == 0
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")


@pytest.mark.parametrize("data, is_asked", [
    (b'{"text": "a"}\n{"text": "b"}\n', True),
    (MARK + b'\n {"text": "a"}\r\n\r\n{"text": "b"}', True),
    (b'{"text": "a"}\n', False),
    (b'{\n  "text": "a"\n}\n', False),
    (b'{"text": "a"}\nand text\n', False),
    (b"[1]\n[2]\n", False),
    (b"", False),
])
def test_a_file_of_json_lines_under_another_name_is_asked_about(tmp_path, tokenizer, capsys, data, is_asked):
    (tmp_path / "in.data").write_bytes(data)
    (tmp_path / "other.txt").write_text("text")
    arguments = ["--from", tmp_path / "in.data", tmp_path / "other.txt", "--tokenizer", tokenizer]
    assert build(*arguments, "--out", tmp_path / "c") == (2 if is_asked else 0)
    if is_asked:
        assert (f"'{tmp_path}/in.data' holds JSON lines, though its name does not say so; give --format jsonl"
                in capsys.readouterr().err)
        assert build(*arguments[:2], *arguments[3:], "--format", "jsonl", "--out", tmp_path / "c") == 0
        assert read_megatron(tmp_path / "c")[1] == ids_alone(tokenizer, ["a", "b"])


def test_json_lines_that_are_compressed_are_read_by_any_name(tmp_path, tokenizer):
    data = gzip.compress(b'{"text": "the cat"}\n{"text": "sat"}\n')
    for name, arguments in (("in.jsonl", []), ("in", ["--format", "jsonl"])):
        (tmp_path / name).write_bytes(data)
        assert build("--from", tmp_path / name, *arguments, "--tokenizer", tokenizer, "--out", tmp_path / "c") == 0
        assert read_megatron(tmp_path / "c")[1] == ids_alone(tokenizer, ["the cat", "sat"])


@pytest.mark.parametrize("name", ["in.JSON", "in.Json.GZ", "in.TXT.GZ", "in.txt.ZST"])
def test_capitals_do_not_hide_what_a_name_says(tmp_path, tokenizer, capsys, name):
    (tmp_path / name).write_text("")
    assert build("--from", tmp_path / name, "--tokenizer", tokenizer, "--out", tmp_path / "c") == 2
    said = capsys.readouterr().err
    assert "does not tell by its name" in said or "is compressed by its name" in said


def test_what_fails_below_a_folder_is_named(tmp_path, tokenizer, capsys):
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("the cat")
    (folder / "deep" / "b.txt").symlink_to("nowhere")
    arguments = ["--from", folder, "--tokenizer", tokenizer, "--out", tmp_path / "c"]
    assert build(*arguments) == 2
    assert f"cannot read input '{folder}/deep/b.txt': No such file" in capsys.readouterr().err
    (folder / "deep" / "b.txt").unlink()
    (folder / "deep" / "b.txt").symlink_to("b.txt")
    assert build(*arguments) == 2
    assert f"cannot read input '{folder}/deep/b.txt': Too many levels" in capsys.readouterr().err
    (folder / "deep" / "b.txt").unlink()
    os.mkfifo(folder / "deep" / "b.txt")  # neither text nor a mistake
    assert build(*arguments) == 0
