"""`python -m slimpack.data_build` and what it cannot use: one line with place, value, rule and
remedy, exit code 2, and nothing under the dataset's name."""

import gzip
import os
import resource
import subprocess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from processes import PATIENCE, environment
from slimpack.text import batches, documents
from text_data import build, command, left_in, read_megatron, run, word_level, write_lines
from tokenizers import Tokenizer, models
from tokenizers.processors import TemplateProcessing


@pytest.fixture(name="refused")
def fixture_refused(tokenizer, tmp_path, capsys):
    """Asserts that a build of these inputs is refused with all the parts, and leaves nothing."""
    def refused(source, *parts, arguments=(), tokenizer=tokenizer):
        before = left_in(tmp_path)
        chosen = ["--tokenizer", tokenizer] if tokenizer else []
        sources = source if isinstance(source, list) else [source]
        assert build("--from", *sources, *chosen, "--out", tmp_path / "c", "--processes", 1,
                     *arguments) == 2
        said = capsys.readouterr()
        assert said.out == "" and said.err.startswith("slimpack: ") and said.err.count("\n") == 1
        for part in parts:
            assert str(part) in said.err
        assert left_in(tmp_path) == before
    return refused


GOOD = b'{"text": "the cat"}\n'


@pytest.mark.parametrize("line, parts", [
    (b'{"text": "\xff"}', ["byte 0xff at position 10", "UTF-8", "iconv"]),
    (b"[1, 2]", ["[1, 2] is no JSON object", 'such as {"text": "…"}']),
    (b"null", ["null is no JSON object"]),
    (b'"' + b"long " * 50 + b'"', ['"long long', "… is no JSON object"]),
    (b'{"text": "a"', ["no JSON object", "delimiter", "mend or remove the line"]),
    (b"[" * 100_000, ["no JSON object", "mend or remove the line"]),
    (b'{"body": "a", "id": 1}', ["no field 'text'", "'body', 'id'", "--field"]),
    (b"{}", ["no field 'text', the object has none", "--field"]),
    (b'{"text": 7}', ["field 'text' is 7, no string", "--field"]),
    (b'{"text": null}', ["field 'text' is null, no string"]),
    (b'{"text": ["a"]}', ['field \'text\' is ["a"], no string']),
    (b'{"text": "ab\\ud83d"}', ["field 'text' is no UTF-8 text (character 2 is '\\ud83d')",
                               "mend or remove the line"]),
])
@pytest.mark.parametrize("name", ["in.jsonl", "in.jsonl.gz"])
def test_a_bad_line_of_json_is_placed(refused, tmp_path, line, parts, name):
    data = GOOD * 2 + line + b"\n" + GOOD
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    refused(tmp_path / name, f"'{tmp_path}/{name}': line 3: ", *parts)


def test_lines_are_counted_over_batches(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "BATCH_BYTES", 50)
    (tmp_path / "in.jsonl").write_bytes(GOOD * 99 + b"7\n")
    refused(tmp_path / "in.jsonl", "line 100: 7 is no JSON object")


def test_any_number_of_processes_tells_the_first_of_several_mistakes(tmp_path, tokenizer):
    """Later batches are shorter, so that their mistakes are found sooner."""
    lines = [GOOD * 30_000, b"first\n", GOOD * 30_000, b"second\n", GOOD * 10, b"third\n"]
    (tmp_path / "in.jsonl").write_bytes(b"".join(lines))
    for processes in (1, 4):
        done = run("--from", tmp_path / "in.jsonl", tmp_path / "in.jsonl", "--tokenizer", tokenizer,
                   "--out", tmp_path / "c", "--processes", processes)
        assert done.returncode == 2 and "line 30001: no JSON object" in done.stderr
        assert done.stderr.count("\n") == 1
    assert left_in(tmp_path) == ["in.jsonl"]


def test_text_that_is_no_utf8_is_placed(refused, tmp_path):
    (tmp_path / "in.txt").write_bytes(b"one\ntwo\nth\x80ree\n")
    refused(tmp_path / "in.txt", f"'{tmp_path}/in.txt': line 3: byte 0x80 at position 2 is no "
            "UTF-8", "iconv")


def test_compressed_data_that_ends_early_is_named(refused, tmp_path):
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(GOOD * 1000)[:-20])
    refused(tmp_path / "in.jsonl.gz", "in.jsonl.gz': line ", "compressed data is damaged")
    (tmp_path / "in.jsonl.gz").write_bytes(GOOD)
    refused(tmp_path / "in.jsonl.gz", "in.jsonl.gz': line 1: the compressed data is damaged",
            "compress the file again")


@pytest.mark.parametrize("columns, parts", [
    (dict(text=["a", None]), ["row 2", "field 'text' is null"]),
    (dict(body=["a"], id=[1]), ["no column 'text', it has 'body', 'id'", "--field"]),
    (dict(text=[1, 2]), ["column 'text' is of type int64", "string"]),
    (dict(text=pa.array([b"a", b"\xff"]).cast(pa.binary())), ["of type binary"]),
    (dict(text=pa.Array.from_buffers(pa.string(), 2, pa.array([b"a", b"b\xff"]).buffers())),
     ["row 2: byte 0xff at position 1 is no UTF-8"]),
])
def test_a_bad_row_or_column_of_parquet_is_placed(refused, tmp_path, columns, parts):
    pq.write_table(pa.table(columns), tmp_path / "in.parquet")
    refused(tmp_path / "in.parquet", f"'{tmp_path}/in.parquet'", *parts)


@pytest.mark.parametrize("keep", [0, 100, -1])
def test_a_damaged_parquet_file_is_named(refused, tmp_path, keep):
    pq.write_table(pa.table(dict(text=["a cat"] * 100)), tmp_path / "in.parquet")
    data = (tmp_path / "in.parquet").read_bytes()
    (tmp_path / "in.parquet").write_bytes(data[:keep])
    refused(tmp_path / "in.parquet", "in.parquet' cannot be read as Parquet", "--format")


def test_inputs_without_a_document_are_refused(refused, tmp_path):
    (tmp_path / "a.txt").write_text("")
    (tmp_path / "b.jsonl").write_text('{"text": ""}\n\n')
    refused([tmp_path / "a.txt", tmp_path / "b.jsonl"],
            "none of the 2 inputs has a document with text (2 are empty)")


def test_a_document_beyond_the_limit_is_refused(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "BATCH_BYTES", 100)
    monkeypatch.setattr(documents, "MAX_DOCUMENT_BYTES", 1000)
    text = b'{"text": "%s"}' % (b"a" * (1000 - 12))
    (tmp_path / "in.jsonl").write_bytes(GOOD * 7 + text + b"\n")
    refused(tmp_path / "in.jsonl", "line 8: longer than 1,000 bytes", "split it")
    (tmp_path / "in.txt").write_bytes(b"a" * 1001)
    refused(tmp_path / "in.txt", "in.txt': longer than 1,000 bytes", "split it")


def test_inputs_that_are_not_there_are_named(refused, tmp_path):
    refused(tmp_path / "nope.txt", "nope.txt': No such file", "check the path")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "no file below", "matches '*'")
    (tmp_path / "empty" / "dangling").symlink_to("nowhere")
    refused(tmp_path / "empty", "No such file")
    refused("/dev/null", "neither a file nor a folder")


def test_a_name_that_does_not_tell_the_format_is_refused(refused, tmp_path):
    for name in ("in.json", "in.json.gz"):
        (tmp_path / name).write_text("")
        refused(tmp_path / name, f"{name}' does not tell", "--format jsonl", "--format text")


def test_a_compressed_file_that_is_not_read_is_refused(refused, tmp_path):
    for name in ("in.jsonl.zst", "in.txt.gz"):
        (tmp_path / name).write_text("")
        refused(tmp_path / name, f"{name}' is compressed by its name", "decompress it")


def test_a_folder_of_nothing_but_the_dataset_is_refused(refused, tmp_path):
    (tmp_path / "c.bin").write_text("")
    refused(tmp_path, "all files of --from belong to the dataset")


def test_a_file_that_vanishes_is_named_and_the_build_goes_on_when_it_is_back(
        tokenizer, tmp_path, capsys, monkeypatch):
    files = [write_lines(tmp_path / f"{i}.jsonl", ["the cat"]) for i in range(3)]
    read = documents.read_lines

    def read_and_lose(source, start):
        if start.input == 1 and files[2].exists():
            files[2].rename(tmp_path / "elsewhere")
        return read(source, start)

    monkeypatch.setattr(documents, "read_lines", read_and_lose)
    arguments = ["--from", *files, "--tokenizer", tokenizer, "--out", tmp_path / "c"]
    assert build(*arguments) == 2
    assert f"cannot read input '{files[2]}': No such file" in capsys.readouterr().err
    monkeypatch.undo()
    (tmp_path / "elsewhere").rename(files[2])
    assert build(*arguments) == 0
    assert capsys.readouterr().err == "going on after 2 documents\n"
    assert len(read_megatron(tmp_path / "c")[1]) == 3


def test_a_file_that_changes_under_way_is_named(tokenizer, tmp_path, capsys, monkeypatch):
    file = write_lines(tmp_path / "in.jsonl", ["the cat"])
    monkeypatch.setattr("slimpack.data_build.encode_in_order", change_first(file))
    assert build("--from", file, "--tokenizer", tokenizer, "--out", tmp_path / "c") == 2
    assert "has changed since the build began" in capsys.readouterr().err


def change_first(file):
    def encode(batches, *_):
        file.write_text("other")
        yield from batches
    return encode


def broken(text):
    def write(file):
        file.write_text(text)
    return write


@pytest.mark.parametrize("write, parts", [
    (broken("{"), ["is no tokenizer (", "tokenizer.json of a Hugging Face model"]),
    (broken('{"a": 1}'), ["is no tokenizer ("]),
    (lambda file: file.write_bytes(b"\xff"), ["is no tokenizer ("]),
    (lambda file: Tokenizer(models.WordLevel({})).save(str(file)), ["has no tokens"]),
    (lambda file: None, ["cannot read tokenizer", "No such file"]),
])
def test_a_file_that_is_no_tokenizer_is_named(refused, tmp_path, write, parts):
    (tmp_path / "in.txt").write_text("the cat")
    write(tmp_path / "tokenizer.json")
    refused(tmp_path / "in.txt", f"'{tmp_path}/tokenizer.json'", *parts,
            tokenizer=tmp_path / "tokenizer.json")


def test_a_document_that_the_tokenizer_cannot_encode_is_placed(refused, tmp_path):
    Tokenizer(models.WordLevel({"a": 0}, unk_token="[UNK]")).save(str(tmp_path / "t.json"))
    source = write_lines(tmp_path / "in.jsonl", ["a", "b"])
    refused(source, "line 2: the tokenizer cannot encode this document (", "UNK",
            tokenizer=tmp_path / "t.json")


@pytest.mark.parametrize("largest", [10, 70_000])
def test_an_id_beyond_the_vocabulary_is_placed(refused, tmp_path, largest):
    """The template of a tokenizer.json may name any id."""
    file = word_level(tmp_path / "t.json", {"a": 0, "b": 1})
    library = Tokenizer.from_file(str(file))
    library.post_processor = TemplateProcessing(single="a $A", special_tokens=[("a", largest)])
    library.save(str(file))
    source = write_lines(tmp_path / "in.jsonl", ["a", "b"])
    refused(source, f"line 1: the tokenizer gave the id {largest}",
            "largest id in its vocabulary is 1", tokenizer=file)


@pytest.mark.parametrize("arguments, parts", [
    (["--append-eod"], ["does not say which token ends a text", "--eod-token"]),
    (["--eod-token", "<nope>"], ["has no token '<nope>'"]),
])
def test_an_end_of_documents_that_is_not_known_is_refused(refused, tmp_path, arguments, parts):
    file = word_level(tmp_path / "t.json", {"a": 0})
    (tmp_path / "in.txt").write_text("a")
    refused(tmp_path / "in.txt", *parts, arguments=arguments, tokenizer=file)


def test_bad_input_is_found_while_a_tokenizer_is_trained(refused, tmp_path):
    (tmp_path / "in.jsonl").write_bytes(GOOD + b"7\n")
    refused(tmp_path / "in.jsonl", "line 2: 7 is no JSON object", tokenizer=None,
            arguments=["--train-tokenizer", 300])


@pytest.mark.parametrize("arguments, parts", [
    ([], ["--from, --out"]),
    (["--from", "x", "--out", "c"], ["--tokenizer --train-tokenizer is required"]),
    (["--from", "x", "--out", "c", "--tokenizer", "t", "--train-tokenizer", "300"],
     ["not allowed"]),
    (["--from", "x", "--out", "c", "--train-tokenizer", "256"], ["'256'", "give 257"]),
    (["--from", "x", "--out", "c", "--train-tokenizer", "many"], ["'many'", "give 257"]),
    (["--from", "x", "--out", "c", "--train-tokenizer", "9" * 14],
     [f"'{'9' * 14}' is no size of a vocabulary; give 257 to 16777216"]),
    (["--from", "x", "--out", "c/", "--tokenizer", "t"], ["'c/' is a folder", "'c/corpus'"]),
    (["--from", "x", "--out", "c", "--tokenizer", "t", "--processes", "0"], ["'0'", "1 to 1024"]),
    (["--from", "x", "--out", "c", "--tokenizer", "t", "--format", "csv"], ["'csv'", "parquet"]),
    (["--from", "x", "--out", "c", "--tokenizer", "t", "--eod-token", "e", "--no-append-eod"],
     ["leave one away"]),
    (["--from", "x", "--out", "c", "--tokenizer", "t", "--feild", "e"], ["--feild"]),
])
def test_a_mistake_on_the_command_line_is_one_line(capsys, arguments, parts):
    with pytest.raises(SystemExit) as end:
        build(*arguments)
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith("slimpack: ") and "data build --help" in said
    for part in parts:
        assert part in said


@pytest.mark.parametrize("name", ["c.bin", "c.idx", "c-tokenizer.json"])
def test_a_folder_where_a_file_should_be_is_found_at_once(tokenizer, tmp_path, name, capsys):
    (tmp_path / "in.txt").write_text("the cat")
    (tmp_path / name).mkdir()
    assert build("--from", tmp_path / "in.txt", "--tokenizer", tokenizer,
                 "--out", tmp_path / "c") == 2
    assert f"cannot write '{tmp_path}/{name}': it is a folder" in capsys.readouterr().err


def test_a_path_that_cannot_be_is_named(tokenizer, tmp_path, capsys):
    (tmp_path / "in.txt").write_text("the cat")
    assert build("--from", tmp_path / "in.txt", "--tokenizer", tokenizer,
                 "--out", tmp_path / "in.txt" / "c") == 2
    assert "in.txt/c': Not a directory; give another --out" in capsys.readouterr().err


def test_a_full_disk_is_told_and_the_build_goes_on_with_room(tokenizer, tmp_path):
    """ulimit -f stands for the disk: writing beyond it fails."""
    source = write_lines(tmp_path / "in.jsonl", ["the cat sat on the mat " * 100] * 2000)
    arguments = ["--from", source, "--tokenizer", tokenizer, "--processes", 1]
    done = run(*arguments, "--out", tmp_path / "c", preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_FSIZE, (1_500_000, 1_500_000)))
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    for part in (f"failed: cannot write '{tmp_path}/c.partial/tokens.bin': File too large", "ulimit -f",
                 "run the same command again"):
        assert part in done.stderr
    assert left_in(tmp_path) == ["c.partial", "in.jsonl"]
    done = run(*arguments, "--out", tmp_path / "c")
    assert done.returncode == 0 and done.stderr.startswith("going on after ")
    assert run(*arguments, "--out", tmp_path / "d").returncode == 0
    assert (tmp_path / "c.bin").read_bytes() == (tmp_path / "d.bin").read_bytes()
    assert (tmp_path / "c.idx").read_bytes() == (tmp_path / "d.idx").read_bytes()


@pytest.mark.parametrize("library, name, arguments", [
    ("tokenizers", "in.txt", []),
    ("tokenizers", "in.txt", ["--train-tokenizer", "300"]),
    ("pyarrow", "in.parquet", []),
])
def test_a_library_that_is_missing_is_named(tokenizer, tmp_path, library, name, arguments):
    lacking = tmp_path / "lacking"
    lacking.mkdir()
    (lacking / f"{library}.py").write_text(f"raise ImportError('No module named {library}')")
    pq.write_table(pa.table(dict(text=["a"])), tmp_path / name)
    env = environment()
    env["PYTHONPATH"] = f"{lacking}{os.pathsep}{env['PYTHONPATH']}"
    done = subprocess.run(
        command("--from", tmp_path / name, *(arguments or ["--tokenizer", tokenizer]), "--out",
                tmp_path / "c"), env=env, capture_output=True, text=True, timeout=PATIENCE,
        check=False)
    extra = {"tokenizers": "text", "pyarrow": "parquet"}[library]
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert f"No module named {library}" in done.stderr
    assert f"pip install slimpack[{extra}]" in done.stderr
