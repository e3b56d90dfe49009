"""`python -m slimpack.data_build`: the tokens of every document are those of `tokenizers`, in the
order of the inputs."""

import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from generated import examples
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from processes import BUILD
from terminal import on_terminal
from text_data import (END, bpe, build, command, environment, files_of, ids_alone, left_in,
                       read_megatron, run, word_level, write_lines)
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

TEXTS = ["the cat\n", "a mat, a bat\r\nand a hat", "", "naïve 猫 🐈‍⬛ \u0000 \ufeff", " \n\t",
         END + " within", "the other cat sat " * 40]
UINT16, INT32 = 8, 4  # dtype codes


def write_inputs(folder, texts, kind):
    """The texts as a folder of files, as JSON lines or as Parquet; what --from takes."""
    if kind == "text":
        (folder / "files").mkdir()
        for i, text in enumerate(texts):
            (folder / "files" / f"{i:05}.txt").write_bytes(text.encode())
        return folder / "files"
    if kind != "parquet":
        return write_lines(folder / f"texts.{kind}", texts)
    pq.write_table(pa.table({"id": range(len(texts)), "text": texts}), folder / "texts.parquet",
                   row_group_size=3)
    return folder / "texts.parquet"


@pytest.mark.parametrize("kind", ["text", "jsonl", "jsonl.gz", "parquet"])
def test_every_document_is_encoded_as_if_alone(tokenizer, tmp_path, kind, capsys):
    source = write_inputs(tmp_path, TEXTS, kind)
    out = tmp_path / "corpus"
    assert build("--from", source, "--tokenizer", tokenizer, "--out", out, "--processes", 1) == 0
    assert read_megatron(out) == (UINT16, ids_alone(tokenizer, TEXTS))
    said = capsys.readouterr()
    assert said.err == ""
    assert f"{out}.bin and corpus.idx: 6 documents, " in said.out
    assert f"each document ends with {END} (token 0)" in said.out
    assert "1 document without text left out, the first: " in said.out
    assert f"next: slimpack data inspect {out}\n" in said.out
    assert not (tmp_path / "corpus.partial").exists()


# Texts of characters that tokenizers treat in their own ways, besides any other texts.
TEXT = st.one_of(st.text(), st.text(alphabet="the cat\r\n\0\u00a0\u2028é猫🐈\u0301\ufeff"),
                 st.builds(lambda text, times: text * times, st.text(min_size=1), st.just(3000)))


@examples(60, derandomize=True, database=None,
          suppress_health_check=list(HealthCheck))
@given(texts=st.lists(TEXT, max_size=6), kind=st.sampled_from(["text", "jsonl", "parquet"]))
def test_any_documents_are_encoded_as_if_alone(tokenizer, texts, kind):
    # A mark of UTF-8 at the beginning of a file is no part of its text.
    told = [text.removeprefix("\ufeff") if kind == "text" else text for text in [*texts, "the last"]]
    expected = ids_alone(tokenizer, told)
    with tempfile.TemporaryDirectory() as folder:
        source = write_inputs(Path(folder), [*texts, "the last"], kind)
        out = Path(folder) / "corpus"
        assert build("--from", source, "--format", kind, "--tokenizer", tokenizer, "--out", out,
                     "--processes", 1) == 0
        code, documents = read_megatron(out)
    assert code == UINT16 and documents == expected
    # A byte-level tokenizer loses nothing: what it gives back is the text.
    library = Tokenizer.from_file(str(tokenizer))
    assert [library.decode(ids[:-1], skip_special_tokens=False) for ids in documents] \
        == [text for text in told if text]


def test_any_number_of_processes_gives_the_same_bytes_in_order(tokenizer, tmp_path):
    """Batches of very different cost, so that they do not end in the order in which they began."""
    texts = [f"{i} " + "the cat sat on " * (40_000 if i % 7 == 0 else 500) for i in range(60)]
    source = write_lines(tmp_path / "texts.jsonl", texts)
    for processes in (1, 4):
        done = run("--from", source, "--tokenizer", tokenizer, "--processes", processes,
                   "--out", tmp_path / f"by-{processes}")
        assert (done.returncode, done.stderr) == (0, "")
    assert files_of(tmp_path / "by-1") == files_of(tmp_path / "by-4")
    assert read_megatron(tmp_path / "by-4")[1] == ids_alone(tokenizer, texts)


def test_inputs_keep_their_order_and_folders_are_sorted_by_path(tokenizer, tmp_path):
    for name in ("b/2.txt", "b/10.txt", "a.txt", "b.txt", ".hidden.txt", ".git/x.txt", "a.md"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(name)
    lines = write_lines(tmp_path / "z.jsonl", ["one", "two"])
    table = tmp_path / "y.parquet"
    pq.write_table(pa.table({"text": ["three"]}), table)
    assert build("--from", lines, tmp_path / "in", "--from", table, "--glob", "*.txt",
                 "--tokenizer", tokenizer, "--out", tmp_path / "corpus") == 0
    # By bytes of the whole path, as `slimpack data build` sorts them: "." is before "/".
    expected = ["one", "two", "a.txt", "b.txt", "b/10.txt", "b/2.txt", "three"]
    assert read_megatron(tmp_path / "corpus")[1] == ids_alone(tokenizer, expected)


@pytest.mark.parametrize("kind", ["text", "parquet"])
def test_batches_of_few_documents_lose_none(tokenizer, tmp_path, monkeypatch, kind):
    monkeypatch.setattr("slimpack.text.batches.BATCH_DOCUMENTS", 2)
    source = write_inputs(tmp_path, TEXTS, kind)
    assert build("--from", source, "--tokenizer", tokenizer, "--out", tmp_path / "c",
                 "--processes", 1) == 0
    assert read_megatron(tmp_path / "c")[1] == ids_alone(tokenizer, TEXTS)


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(),
                                  pa.dictionary(pa.int8(), pa.string())])
def test_every_string_type_of_parquet_is_read(tokenizer, tmp_path, kind):
    pq.write_table(pa.table({"body": pa.array(["the", "cat", "the"]).cast(kind)}),
                   tmp_path / "t.parquet")
    assert build("--from", tmp_path / "t.parquet", "--field", "body", "--tokenizer", tokenizer,
                 "--out", tmp_path / "corpus") == 0
    assert read_megatron(tmp_path / "corpus")[1] == ids_alone(tokenizer, ["the", "cat", "the"])


@pytest.mark.parametrize("largest, code", [(65_498, UINT16), (65_499, INT32), (70_000, INT32)])
def test_a_vocabulary_of_65500_takes_four_bytes_a_token(tmp_path, largest, code):
    file = word_level(tmp_path / "tokenizer.json", {"a": 0, "b": 1, "z": largest})
    (tmp_path / "in.txt").write_text("a z b z")
    assert build("--from", tmp_path / "in.txt", "--tokenizer", file, "--out", tmp_path / "c") == 0
    assert read_megatron(tmp_path / "c") == (code, [[0, largest, 1, largest]])


def test_truncation_and_padding_of_the_tokenizer_are_not_applied(tokenizer, tmp_path):
    library = Tokenizer.from_file(str(tokenizer))
    library.enable_truncation(4)
    library.enable_padding(length=50)
    library.save(str(tmp_path / "cuts.json"))
    texts = ["the cat sat on the mat " * 5, "cat"]
    source = write_lines(tmp_path / "in.jsonl", texts)
    assert build("--from", source, "--tokenizer", tmp_path / "cuts.json",
                 "--out", tmp_path / "corpus") == 0
    assert read_megatron(tmp_path / "corpus")[1] == ids_alone(tokenizer, texts)


class TestTheEndOfADocument:
    @pytest.fixture(name="ends")
    def fixture_ends(self, tmp_path):
        """The last tokens of documents, for a tokenizer of these tokens and such arguments."""
        (tmp_path / "in.txt").write_text("a b")

        def ends(tokens, *arguments, config=None, template=None, **files):
            model = tmp_path / "model"
            model.mkdir()
            for name, content in files.items():
                (model / f"{name}.json").write_text(json.dumps(content))
            word_level(model / "tokenizer.json", {token: i for i, token in enumerate(tokens)})
            if template:
                library = Tokenizer.from_file(str(model / "tokenizer.json"))
                library.post_processor = TemplateProcessing(
                    single=template, special_tokens=[(t, i) for i, t in enumerate(tokens)])
                library.save(str(model / "tokenizer.json"))
            if config:
                (model / "tokenizer_config.json").write_text(json.dumps(config))
            assert build("--from", tmp_path / "in.txt", "--tokenizer", model, *arguments,
                         "--out", tmp_path / "corpus") == 0
            return read_megatron(tmp_path / "corpus")[1][0]
        return ends

    def test_is_the_eos_token_of_the_tokenizer_config(self, ends):
        assert ends(["a", "b", "</s>", "<stop>"], config={"eos_token": "<stop>"}) == [0, 1, 3]

    def test_may_be_an_object_there(self, ends):
        assert ends(["a", "b", "<stop>"], config={"eos_token": {"content": "<stop>"}}) == [0, 1, 2]

    def test_is_else_a_usual_name(self, ends):
        assert ends(["a", "b", "</s>"], config={"eos_token": None}) == [0, 1, 2]

    def test_is_said_to_be_a_guess_where_it_has_but_a_usual_name(self, ends, capsys):
        ends(["a", "b", "</s>"])
        assert "ends with </s> (token 2), a usual name: no file beside" in capsys.readouterr().out

    def test_may_be_named_by_the_map_of_special_tokens(self, ends, capsys):
        assert ends(["a", "b", "<|endoftext|>", "<stop>"], config={}, special_tokens_map={
            "eos_token": "<stop>"}) == [0, 1, 3]
        assert "ends with <stop> (token 3)\n" in capsys.readouterr().out

    def test_may_be_a_token_that_only_the_tokenizer_config_has(self, ends):
        assert ends(["a", "b", "<|endoftext|>"], config={"eos_token": "<stop>", "added_tokens_decoder": {
            "3": {"content": "<stop>", "special": True}}}) == [0, 1, 3]

    @pytest.mark.parametrize("config, part", [
        ({"eos_token": "<nope>"}, "names the eos_token '<nope>', which"),
        ({"eos_token": 7}, "eos_token is 7, it must be the text of a token"),
        ("{", "holds no JSON object"),
    ])
    def test_is_no_guess_where_a_file_names_one_that_cannot_be(self, ends, capsys, config, part):
        with pytest.raises(AssertionError):
            ends(["a", "b", "<|endoftext|>"], config=config)
        said = capsys.readouterr().err
        assert part in said and "tokenizer_config.json'" in said and said.count("\n") == 1

    def test_is_the_one_on_request_where_the_named_one_cannot_be(self, ends):
        assert ends(["a", "b", "</s>"], "--eod-token", "</s>", config={"eos_token": "<nope>"}) == [0, 1, 2]

    def test_is_left_out_when_it_is_not_known(self, ends, capsys):
        assert ends(["a", "b"]) == [0, 1]
        assert "no token ends the documents" in capsys.readouterr().out

    def test_is_left_out_on_request(self, ends):
        assert ends(["a", "b", "</s>"], "--no-append-eod") == [0, 1]

    def test_is_the_one_that_is_named(self, ends):
        assert ends(["a", "b", "</s>", "<stop>"], "--eod-token", "<stop>") == [0, 1, 3]

    def test_is_not_doubled_where_the_tokenizers_template_puts_it(self, ends):
        assert ends(["a", "b", "<s>", "</s>"], template="<s> $A </s>") == [2, 0, 1, 3]

    def test_is_put_where_the_same_token_begins_a_text(self, ends):
        assert ends(["a", "b", "</s>"], template="</s> $A") == [2, 0, 1, 2]


def test_a_trained_tokenizer_is_that_of_the_library_and_encodes_its_documents(tmp_path, capsys):
    texts = ["the cat sat on the mat " * 3, "", "naïve 猫"]
    source = write_lines(tmp_path / "in.jsonl", texts)
    out = tmp_path / "corpus"
    assert build("--from", source, "--train-tokenizer", 270, "--out", out) == 0
    file = tmp_path / "corpus-tokenizer.json"
    assert json.loads(file.read_text()) == json.loads(bpe(texts, 270).to_str())
    assert read_megatron(out) == (UINT16, ids_alone(file, texts))
    assert "vocabulary: 270;" in capsys.readouterr().out
    assert left_in(tmp_path) == ["corpus-tokenizer.json", "corpus.bin", "corpus.idx", "in.jsonl"]


def test_the_files_of_the_dataset_are_no_inputs_of_it(tokenizer, tmp_path, capsys):
    (tmp_path / "in.txt").write_text("the cat")
    for ending in ("bin", "idx"):  # of a mask
        (tmp_path / f"c.mask.{ending}").write_text("no text of a document")
    for _ in range(2):
        assert build("--from", tmp_path, "--train-tokenizer", 257, "--out", tmp_path / "c") == 0
        assert len(read_megatron(tmp_path / "c")[1]) == 1
    assert f"skipped '{tmp_path}/c.bin': belongs to the dataset" in capsys.readouterr().err


def test_links_stay_links(tokenizer, tmp_path):
    (tmp_path / "in.txt").write_text("the cat")
    for name in ("c.bin", "c.idx"):
        (tmp_path / name).symlink_to(tmp_path / "disk" / name)
    assert build("--from", tmp_path / "in.txt", "--tokenizer", tokenizer,
                 "--out", tmp_path / "c") == 0
    assert (tmp_path / "c.bin").is_symlink() and (tmp_path / "c.idx").is_symlink()
    assert left_in(tmp_path / "disk") == ["c.bin", "c.idx"]


def test_blank_lines_and_a_missing_last_newline_are_allowed(tokenizer, tmp_path):
    data = b'{"text": "the"}\n\n  \r\n{"text": "cat"}\r\n{"text": "mat"}'
    for name, bytes_of in (("a.jsonl", data), ("b.jsonl.gz", gzip.compress(data))):
        (tmp_path / name).write_bytes(bytes_of)
        assert build("--from", tmp_path / name, "--tokenizer", tokenizer,
                     "--out", tmp_path / "c") == 0
        assert read_megatron(tmp_path / "c")[1] == ids_alone(tokenizer, ["the", "cat", "mat"])


def test_progress_is_one_line_on_a_terminal(tokenizer, tmp_path):
    write_lines(tmp_path / "in.jsonl", ["the cat sat on the mat " * 20_000] * 12)
    text, code = on_terminal(
        command("--from", tmp_path / "in.jsonl", "--tokenizer", tokenizer, "--processes", 1,
                "--out", tmp_path / "c"), 80, env=environment())
    assert code == 0
    *drawn, last = text.split("\r\n")[0].split("\r")[1:]
    assert drawn and all(line.startswith("tokenizing: ") and " documents (" in line
                         and ("B/s, ETA " in line or "(100%)" in line) and len(line) < 80 + 3
                         for line in drawn)
    assert last.startswith("tokenizing: 12 documents in ") and last.endswith("/s\x1b[K")


def test_help_teaches():
    done = run("--help")
    assert done.returncode == 0
    for part in ("--from PATH", "--train-tokenizer VOCAB", "--append-eod", "PREFIX.partial",
                 "slimpack data inspect"):
        assert part in done.stdout


def test_the_program_passes_tokenizers_on(tokenizer, tmp_path):
    source = write_lines(tmp_path / "in.jsonl", ["the cat"])
    arguments = ["data", "build", "--from", source, "--tokenizer", tokenizer, "--out", tmp_path / "c"]
    environment = {**os.environ, "PYTHONPATH": str(BUILD / "python")}
    subprocess.run([sys.executable, "-m", "slimpack", *arguments], env=environment, check=True)
    assert (tmp_path / "c.bin").stat().st_size > 0
    lost = subprocess.run([BUILD / "slimpack", *arguments], env={"SLIMPACK_PYTHON": "/no/python"},
                          capture_output=True, text=True, check=False)
    assert lost.returncode == 2 and lost.stderr.count("\n") == 1
    assert "cannot start '/no/python': No such file" in lost.stderr
