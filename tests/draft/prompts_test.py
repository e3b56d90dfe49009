"""Prompts of a target: which files they are read from, and the tokens that transformers gives them."""

import gzip
import json

import pytest
from draft_models import VOCABULARY, save_target, small_config, write_dataset
from slimpack import InvalidInput
from slimpack.draft import __main__ as program
from slimpack.draft.prompts import prompt_encoder, read_prompts
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer

WORDS = ["<s>", "</s>", "user", "assistant", "hello", "be", "kind", ":"]
SAID = [{"role": "user", "content": "be kind"}, {"role": "assistant", "content": "hello"}]
CHAT = ("{{ bos_token }}{% for m in messages %}{{ m.role }} : {{ m.content }} {% endfor %}"
        "{% if add_generation_prompt %}assistant :{% endif %}")


def save_tokenizer(folder, chat=None):
    """Tokens are words; <s> begins a text."""
    tokenizer = Tokenizer(models.WordLevel({word: id for id, word in enumerate(WORDS)}, unk_token="</s>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "chat_template": chat}))
    return folder


def lengths(prompt):
    """An encoder whose tokens are lengths of words; of messages behind the token 1."""
    if isinstance(prompt, str):
        return [len(word) for word in prompt.split()]
    return [1, *(len(word) for m in prompt for word in m["content"].split())]


def prompts_in(path, field="prompt", count=None):
    return read_prompts(path, lambda: lengths, field, 2, count)


@pytest.mark.parametrize("name", ["p.jsonl", "P.JSONL", "p.ndjson", "p.jsonl.gz", "p.NDJSON.GZ"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_lines_of_json_are_read_from_files_of_every_name(tmp_path, name, mark):
    data = mark + b'{"q": "a bb"}\r\n\n' + mark + b'{"q": "ccc"}\n{"q": ""}\n' + json.dumps({"q": SAID}).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.lower().endswith("gz") else data)
    found = prompts_in(tmp_path / name, "q")
    assert found.tokens == [[1, 2], [3], [], [1, 2, 4, 5]]
    assert found.places == [f"'{tmp_path / name}': line {line}" for line in (1, 3, 4, 5)]
    assert found.empty() == found.places[2:3]
    assert prompts_in(tmp_path / name, "q", count=1).tokens == [[1, 2]]


@pytest.mark.parametrize("name", ["p.txt", "p", "p.txt.gz"])
def test_lines_of_text_are_prompts(tmp_path, name):
    data = b"\xef\xbb\xbfa bb\r\n\nccc dddd"
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert prompts_in(tmp_path / name).tokens == [[1, 2], [3, 4]]


def test_documents_of_a_dataset_are_prompts(tmp_path):
    write_dataset(tmp_path / "d", [[5, 6, 7], [8]])
    assert prompts_in(tmp_path / "d").tokens == [[5, 6], [8]]  # the first two tokens of each
    found = prompts_in(tmp_path / "d", count=1)
    assert (found.tokens, found.places) == ([[5, 6]], [f"'{tmp_path / 'd'}': document 0"])


@pytest.mark.parametrize("data, words", [
    (b"{", ["line 1", "no JSON object", "jq -c"]),
    (b'{"text": "a"}', ["line 1", "no field 'prompt'", "has 'text'", "--field"]),
    (b'{"prompt": 7}', ["line 1", "field 'prompt' is 7", "neither a text nor a list of chat messages"]),
    (b'{"prompt": [{"role": "user"}]}', ["neither a text"]),
    (b'{"prompt": "a"}\n{"prompt": "\\ud83d"}', ["line 2", "is no UTF-8 text (character 0 is '\\ud83d')"]),
    (b"[1]", ["line 1", "[1] is no JSON object"]),
    (b"\xff", ["line 1", "byte 0xff at position 0", "UTF-8"]),
    (b"", ["has no prompt"]),
    (b'{"prompt": ""}', ["has no prompt"]),
    (None, ["cannot read", "No such file"]),
])
def test_prompts_that_are_refused(tmp_path, data, words):
    file = tmp_path / "p.jsonl"
    if data is not None:
        file.write_bytes(data)
    with pytest.raises(InvalidInput) as error:
        prompts_in(file)
    assert "\n" not in str(error.value) and str(file) in str(error.value)
    for word in words:
        assert word in str(error.value)


def test_lines_of_json_under_another_name_are_asked_about(tmp_path):
    (tmp_path / "p.txt").write_text('{"prompt": "a"}\n{"prompt": "b"}\n')
    with pytest.raises(InvalidInput, match="holds JSON lines, .* ends with .jsonl"):
        prompts_in(tmp_path / "p.txt")
    for name in ("p.json", "P.JSON.GZ", "p.parquet"):
        (tmp_path / name).write_text('["a"]')
        with pytest.raises(InvalidInput, match="is no list of prompts by its name; give JSON lines"):
            prompts_in(tmp_path / name)
    (tmp_path / "p.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(InvalidInput, match="compressed data is damaged"):
        prompts_in(tmp_path / "p.jsonl.gz")


@pytest.mark.parametrize("prompt", ["hello", "be kind and </s> hello", "", SAID])
@pytest.mark.parametrize("chat", [None, CHAT])
def test_tokens_of_prompts_are_those_of_transformers(tmp_path, chat, prompt):
    folder = save_tokenizer(tmp_path / "target", chat)
    theirs = AutoTokenizer.from_pretrained(folder)
    if chat is None and not isinstance(prompt, str):
        with pytest.raises(InvalidInput, match="no chat template, so prompts are texts"):
            prompt_encoder(folder)(prompt)
        return
    said = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    expected = theirs(prompt) if chat is None else theirs.apply_chat_template(said, add_generation_prompt=True)
    assert prompt_encoder(folder)(prompt) == expected.input_ids


def test_a_target_without_a_tokenizer_json_has_the_tokens_of_transformers(tmp_path):
    folder = tmp_path / "target"
    save_target(folder, config=small_config())
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    (folder / "vocab.json").write_text(json.dumps({letter: id for id, letter in enumerate([*alphabet, "he", "</s>"])}))
    (folder / "merges.txt").write_text("#version: 0.2\nh e\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "GPT2Tokenizer", "eos_token": "</s>", "bos_token": "</s>", "unk_token": "</s>",
         "chat_template": "{{ bos_token }}{{ messages[0].content }}"}))
    theirs = AutoTokenizer.from_pretrained(folder)
    expected = theirs.apply_chat_template([{"role": "user", "content": "hello é"}]).input_ids
    assert len(expected) == 8 and prompt_encoder(folder)("hello é") == expected  # </s> he l l o _ and two bytes


def test_a_prompt_that_the_template_refuses_is_placed(tmp_path):
    folder = save_tokenizer(tmp_path / "target", "{{ raise_exception('no ' + messages[0].content) }}")
    (tmp_path / "p.txt").write_text("\nhello\n")
    with pytest.raises(InvalidInput, match="p.txt': line 2: the chat template refuses the messages: no hello"):
        read_prompts(tmp_path / "p.txt", lambda: prompt_encoder(folder), "prompt", 2, None)


@pytest.fixture(name="target")
def fixture_target(tmp_path):
    folder = save_target(tmp_path / "target", config=small_config(max_position_embeddings=24))
    return save_tokenizer(folder)


def run(*arguments):
    return program.main([str(argument) for argument in arguments])


def test_an_empty_prompt_is_told_and_keeps_its_line(target, tmp_path, capsys):
    tokenizer = Tokenizer.from_file(str(target / "tokenizer.json"))
    tokenizer.post_processor = TemplateProcessing(single="$A", special_tokens=[])
    tokenizer.save(str(target / "tokenizer.json"))
    (tmp_path / "p.jsonl").write_text('{"prompt": "hello"}\n{"prompt": ""}\n{"prompt": "be"}\n')
    assert run("answers", "--target", target, "--prompts", tmp_path / "p.jsonl", "--new-tokens", 3, "--out",
               tmp_path / "a.jsonl") == 0
    said = capsys.readouterr()
    assert f"without a token, whose answers are empty: 1, the first: '{tmp_path}/p.jsonl': line 2" in said.err
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [(line["prompt"], len(line["answer"])) for line in lines] == [([4], 3), ([], 0), ([5], 3)]
    # A head learns from such a file.
    (tmp_path / "more.jsonl").write_text((tmp_path / "a.jsonl").read_text() * 8)
    assert run("train", "--target", target, "--data", tmp_path / "more.jsonl", "--out", tmp_path / "head", "--steps",
               1, "--step-tokens", 20, "--context", 8, "--warmup-steps", 0) == 0


@pytest.mark.parametrize("engine", ["slimpack", "transformers"])
def test_a_prompt_that_the_target_cannot_take_is_placed(target, tmp_path, capsys, monkeypatch, engine):
    if engine == "transformers":
        def refuse(*_, **__):
            raise InvalidInput("another family")
        monkeypatch.setattr("slimpack.draft.engine_answers.EngineGenerator", refuse)
    command = ["answers", "--target", target, "--out", tmp_path / "a.jsonl", "--prompts"]
    (tmp_path / "p.txt").write_text("hello\n" + "be " * 24 + "\nkind\n")
    assert run(*command, tmp_path / "p.txt") == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"slimpack: '{tmp_path}/p.txt': line 2: the prompt has 25 tokens, the model 24 positions; shorten the prompt")
    write_dataset(tmp_path / "d", [[1], [VOCABULARY]])
    assert run(*command, tmp_path / "d") == 2
    assert f"d': document 1: token {VOCABULARY} is not in the model's vocabulary" in capsys.readouterr().err
    assert not (tmp_path / "a.jsonl").exists()
