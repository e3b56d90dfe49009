"""Conversations that `slimpack data build --chat` cannot use: one line with place, value, rule and remedy, exit
code 2, and nothing under the dataset's name."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chat_data import CHATML, STYLES, Style, make_folder, write_objects
from generated import examples
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from slimpack.command_line import one_line
from slimpack.text.batches import Batch, Position
from slimpack.text.chat_encoding import ChatEncoder, chat_of
from slimpack.text.errors import BadDocument
from slimpack.text.targets import LOSS_ON
from slimpack.text.tokenizer import read_tokenizer
from text_data import build, left_in, write_lines


@pytest.fixture(scope="module", name="model")
def fixture_model(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("model"), STYLES["qwen-2.5"])


@pytest.fixture(name="refused")
def fixture_refused(model, tmp_path, capsys):
    """Asserts that a build is refused with all the parts, and leaves nothing."""
    def refused(source, *parts, arguments=(), model=model):
        before = left_in(tmp_path)
        try:
            code = build("--chat", "--from", source, "--tokenizer", model, "--out", tmp_path / "c", "--processes", 1,
                         *arguments)
        except SystemExit as ended:  # of the parser
            code = ended.code
        told = capsys.readouterr()
        assert code == 2 and told.out == ""
        assert told.err.startswith("slimpack: ") and told.err.count("\n") == 1, told.err
        for part in parts:
            assert str(part) in told.err
        assert left_in(tmp_path) == before
    return refused


USER, ANSWER = {"role": "user", "content": "the cat"}, {"role": "assistant", "content": "sat"}
GOOD = {"messages": [USER, ANSWER]}


def with_message(message):
    return {"messages": [USER, message]}


@pytest.mark.parametrize("line, parts", [
    ([1], ["[1] is no JSON object", '{"messages": [{"role": "user"']),
    ({}, ["neither a field 'messages' nor 'prompt' and 'completion', the object has none", "--field"]),
    ({"conversations": [], "id": 1}, ["the object has 'conversations', 'id'", "give the --field that holds messages"]),
    ({"question": "a", "answer": "b"}, ["name a question and its answer 'prompt' and 'completion'"]),
    ({"prompt": "a"}, ["nor 'prompt' and 'completion'", "has 'prompt'"]),
    ({"prompt": "a", "completion": None}, ["nor 'prompt' and 'completion'"]),
    ({"prompt": 3, "completion": "a"}, ["field 'prompt' is 3, no list of messages"]),
    ({"prompt": "a", "completion": []}, ["field 'completion' has no message"]),
    ({"messages": "the cat"}, ["field 'messages' is \"the cat\", no list of messages", "such as {"]),
    ({"messages": {"role": "user"}}, ["no list of messages"]),
    ({"messages": []}, ["field 'messages' has no message", "remove the line"]),
    (with_message("sat"), ["message 2 of 'messages' is \"sat\", no object with role and content"]),
    (with_message({"content": "sat"}), ["message 2 of 'messages': the role is missing, it has 'content'"]),
    (with_message({"from": "gpt", "value": "sat"}), [
        "the role is missing", "name 'from' and 'value' role and content"]),
    (with_message({"role": 7, "content": "sat"}), ["the role is 7, no text"]),
    (with_message({"role": "", "content": "sat"}), ['the role is "", no text']),
    (with_message({"role": "assistant", "content": 3}), ["the content is 3, neither a text nor a list of texts"]),
    (with_message({"role": "assistant"}), ["message 2 of 'messages' has neither content nor tool calls"]),
    (with_message({"role": "assistant", "content": None, "tool_calls": []}), ["neither content nor tool calls"]),
    (with_message({"role": "user", "content": [{"type": "image", "url": "x"}]}), [
        'a part of the content is {"type": "image", "url": "x"}, no text']),
    (with_message({"role": "assistant", "content": "\ud83d"}), [
        "no UTF-8 text", "'\\ud83d'", "mend or remove the line"]),
    ({**GOOD, "tools": {"name": "f"}}, ["field 'tools' is {\"name\": \"f\"}, no list of objects"]),
    ({**GOOD, "tools": "[f]"}, ["field 'tools' is a text and no JSON"]),
    ({"messages": [ANSWER]}, ["does not tell which tokens message 1 (assistant) has: no message stands before it",
                              "begin with a turn of another role"]),
])
def test_a_line_that_is_no_conversation_is_placed(refused, tmp_path, line, parts):
    file = tmp_path / "in.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in (GOOD, GOOD, line, GOOD)))
    refused(file, f"'{file}': line 3: ", *parts)


def other_roles(*roles):
    return json.dumps({"messages": [{"role": role, "content": "the cat"} for role in roles]}).encode()


LINE = json.dumps(GOOD).encode()


@pytest.mark.parametrize("name, data, parts", [
    ("in.json", b"[" + LINE + b"]", ["does not tell by its name what it holds", "jq -c '.[]' makes such lines"]),
    ("in.jsonl", b"[\n" + LINE + b"\n]", ["line 1: no JSON object", "jq -c '.[]' FILE makes lines of a file"]),
    ("in.jsonl", b"[" + LINE + b"]\n", ["line 1: [{", "is no JSON object", "jq -c '.[]' FILE makes lines"]),
    ("in.jsonl", json.dumps(GOOD, indent=1).encode(), ["line 1: no JSON object", "jq -c . FILE of objects on several"]),
    ("in.jsonl", LINE + b"\n" + LINE[:30], ["line 2: no JSON object", "mend or remove the line"]),
    ("in.jsonl", b"", ["none of the 1 inputs has a conversation; give other inputs"]),
    ("in.jsonl", json.dumps(GOOD).encode("utf-16"), ["line 1: byte 0xff at position 0 is no UTF-8; convert"]),
    ("in.jsonl.gz", b"\x1f\x8b\x08abc", ["line 1: the compressed data is damaged"]),
    ("in.csv", b"messages\n[]\n", ["holds text by its name", "--chat reads JSON lines and Parquet"]),
    ("in.jsonl", other_roles("User", "Assistant"), [
        "(1 have none), the first: ", "line 1 (its roles are 'User', 'Assistant', none is 'assistant')"]),
    ("in.jsonl", other_roles("user", "model"), ["(its roles are 'user', 'model', none is 'assistant')"]),
])
def test_a_file_that_is_none_of_conversations_says_what_to_do(refused, tmp_path, name, data, parts):
    (tmp_path / name).write_bytes(data)
    refused(tmp_path / name, *parts)


@pytest.mark.parametrize("template", ["hello", "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}"])
def test_a_template_that_writes_nothing_of_an_answer_is_told(refused, tmp_path, template):
    model = make_folder(tmp_path / "model", Style(template, CHATML, ""))
    refused(write_objects(tmp_path / "in.jsonl", [GOOD]), "(its text has nothing of what the assistant says)", model=model)


@pytest.mark.parametrize("path, data, parts", [
    ("maker/model", None, ["cannot read tokenizer", "a model of the Hub is downloaded first (hf download"]),
    ("model.json", None, ["cannot read tokenizer", "check the path"]),
    ("model.json", "<html>", ["is no tokenizer", "give the tokenizer.json of a Hugging Face model"]),
])
def test_what_is_no_tokenizer_is_told(refused, tmp_path, path, data, parts):
    if data:
        (tmp_path / path).write_text(data)
    refused(write_objects(tmp_path / "in.jsonl", [GOOD]), *parts, model=tmp_path / path)


@pytest.mark.parametrize("template, told", [
    ("{% for m in messages %}{{ m.role + m.content + '<|im_end|>' }}{% endfor %}", False),
    ("{% for m in messages %}{{ m.role + m.content + '<|im_end|>\n\n' }}{% endfor %}", False),
    ("{% for m in messages %}{{ m.role + m.content + '\n' }}{% endfor %}", True),
    ("{% for m in messages %}{{ m.role }}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}"
     "{% else %}{{ m.content }}{% endif %}{{ '<|im_end|>' }}{% endfor %}", True),
])
def test_answers_that_do_not_end_with_a_special_token_are_counted(tmp_path, capsys, template, told):
    """A model does not learn from them where to end, for example where marks leave the token out."""
    model = make_folder(tmp_path / "model", Style(template, CHATML, ""))
    file = write_objects(tmp_path / "in.jsonl", [GOOD, GOOD])
    assert build("--chat", "--from", file, "--tokenizer", model, "--out", tmp_path / "c", "--processes", 1) == 0
    line = f"2 conversations whose last answer ends without a special token, the first: '{file}': line 1; a model learns"
    assert (line in capsys.readouterr().out) == told


@pytest.mark.parametrize("template, chat, parts", [
    (STYLES["mistral"].text(False), [USER, USER, ANSWER], ["refuses the messages: roles must alternate"]),
    ("{% for m in messages %}{{ m.content + m.name }}{% endfor %}", [USER, ANSWER], [
        "chat template of", "fails: ", "mend the template"]),
    ("{{ messages[0].content }}{{ 1 // 0 }}", [USER, ANSWER], ["fails: integer division or modulo by zero"]),
    # Says how many messages there are, and writes contents otherwise than they are.
    ("{{ messages | length }}{% for m in messages %}{{ m.content | length }}{{ m.content }}{% endfor %}",
     [USER, ANSWER], [
        "does not tell which tokens message 2 (assistant) has", "unknown where it begins", "give --loss-on last",
        "{% generation %}"]),
    # Ends the last turn otherwise.
    ("{% for m in messages %}{{ m.role + m.content }}{{ '<|im_end|>' if loop.last else '</s>' }}{% endfor %}",
     [USER, ANSWER, USER], ["message 2 (assistant) has", "unknown where it begins"]),
    ("{% for m in messages %}{{ m.role + m.content }}{{ '</s>' if loop.last and m.role == 'assistant' else '' }}"
     "{% endfor %}", [USER, ANSWER, USER], ["message 2 (assistant) has", "unknown where it ends"]),
    # Beginning of an answer that no turn has.
    ("{% for m in messages %}{{ m.role + m.content }}{% endfor %}{% if add_generation_prompt %}assistant<think>"
     "{% endif %}", [USER, ANSWER, USER], ["message 2 (assistant) has", "unknown where it begins"]),
    # The content stands twice.
    ("{{ messages | length }}{% for m in messages %}{{ m.role + m.content + m.content }}{% endfor %}", [USER, ANSWER],
     ["unknown where it begins"]),
    ("{% for m in messages %}{% set x %}{% generation %}{{ m.content }}{% endgeneration %}{% endset %}"
     "{{ x | length }}{{ x }}{% endfor %}", [USER, ANSWER], ["changes text that it has marked ({% generation %})"]),
])
def test_a_template_that_fails_or_tells_too_little_is_placed(refused, tmp_path, template, chat, parts):
    model = make_folder(tmp_path / "model", Style(template, CHATML, ""))
    refused(write_objects(tmp_path / "in.jsonl", [{"messages": chat}]), "line 1: ", *parts, model=model)


def test_marks_that_only_the_last_turn_has_do_not_tell_of_a_last_completion(refused, tmp_path):
    """The template marks what another number of messages would not."""
    template = ("{% for m in messages %}{% if loop.index0 >= messages | length - 2 %}{% generation %}{{ m.content }}"
                "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}")
    model = make_folder(tmp_path / "model", Style(template, CHATML, ""))
    refused(write_objects(tmp_path / "in.jsonl", [{"messages": [USER, ANSWER, {**USER, "content": "a"}, ANSWER]}]),
            "does not tell which of its marks belong to message 4", model=model, arguments=["--loss-on", "last"])


def test_a_token_that_a_space_would_be_put_before_is_refused(refused, tmp_path):
    """One token has the 'at' of 'the cat'; a tokenizer of SentencePiece would begin 't' with a space."""
    style = Style("{% for m in messages %}{{ m.content }}{% endfor %}", [], "", True)
    model = make_folder(tmp_path / "model", style)
    refused(write_objects(tmp_path / "in.jsonl", [{"prompt": "the ca", "completion": "t sat"}]), "line 1: ",
            "begins or ends within a token, between 'the ca' and 't sat'", "let a space stand there", model=model)


@pytest.mark.parametrize("depth", [100, 300, 600, 990, 100_000])
@pytest.mark.parametrize("before, behind", [
    ('{"messages": ', "}"), ('{"messages": [{"role": "user", "content": ', "}]}"),
    ('{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "more": ', "}]}"),
    ('{"prompt": "a", "completion": "b", "tools": [{"more": ', "}]}")])
def test_values_in_each_other_end_with_one_line_or_a_dataset(model, tmp_path, capsys, depth, before, behind):
    (tmp_path / "in.jsonl").write_text(f"{before}{'[' * depth}{']' * depth}{behind}\n")
    code = build("--chat", "--from", tmp_path / "in.jsonl", "--tokenizer", model, "--out", tmp_path / "c",
                 "--processes", 1)
    told = capsys.readouterr().err
    assert code == 0 or (code == 2 and told.count("\n") == 1 and "in.jsonl': line 1: " in told), told[:300]


KEYS = st.sampled_from(["messages", "prompt", "completion", "tools", "role", "content", "tool_calls", "function", "name",
                        "arguments", "type", "text", "reasoning_content", "from"])
TEXTS = st.sampled_from(["user", "assistant", "system", "tool", "text", "", " ", "the cat", "\ud800", "<|im_end|>", "[]"])
VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
                      lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12)
MESSAGES = st.lists(st.fixed_dictionaries({"role": TEXTS, "content": TEXTS | VALUES}, optional={
    "tool_calls": VALUES, "reasoning_content": VALUES, "name": VALUES}), max_size=5)


@pytest.fixture(scope="module", name="encoders")
def fixture_encoders(tmp_path_factory):
    """One for each style, with and without marks."""
    made = []
    for name, style in STYLES.items():
        for marks in (False, True):
            folder = make_folder(tmp_path_factory.mktemp(name), style, marks)
            tokenizer = read_tokenizer(folder, append=False)
            chat = chat_of(tokenizer, folder, None)
            made += [ChatEncoder(tokenizer, chat, loss_on, "messages") for loss_on in LOSS_ON]
    return made


@examples(300, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(line=VALUES | st.fixed_dictionaries({"messages": MESSAGES}, optional={"tools": VALUES})
       | st.fixed_dictionaries({"prompt": TEXTS | MESSAGES, "completion": TEXTS | MESSAGES}), which=st.integers(0, 35))
def test_any_line_becomes_tokens_with_a_mask_or_one_line(encoders, line, which):
    batch = Batch("jsonl", [json.dumps(line).encode()], ["in.jsonl"], 1, Position(), 0)
    try:
        encoded = encoders[which].encode(batch)
    except BadDocument as error:
        assert str(error).startswith("'in.jsonl': line 1: ") and "\n" not in one_line(str(error))
        return
    assert len(encoded.tokens) == 2 * len(encoded.mask) and encoded.targets <= sum(encoded.mask)
    assert encoded.documents + encoded.findings.empty == 1


def test_rows_are_placed(refused, tmp_path):
    pq.write_table(pa.table({"messages": [[USER, ANSWER], [], None]}), tmp_path / "in.parquet")
    refused(tmp_path / "in.parquet", "in.parquet': row 2: field 'messages' has no message")
    pq.write_table(pa.table({"messages": [[USER, ANSWER], None]}), tmp_path / "in.parquet")
    refused(tmp_path / "in.parquet", "row 2: neither a field 'messages'")
    pq.write_table(pa.table({"text": ["a"], "prompt": ["b"]}), tmp_path / "in.parquet")
    refused(tmp_path / "in.parquet", "neither a column 'messages' nor 'prompt' and 'completion'", "'text', 'prompt'")
    pq.write_table(pa.table({"messages": [[{"role": "user", "content": b"ab"}]]}), tmp_path / "in.parquet")
    refused(tmp_path / "in.parquet", 'row 1: "Object of type bytes is not JSON', "is no JSON object")


def test_inputs_without_any_target_are_refused(refused, tmp_path):
    file = write_objects(tmp_path / "in.jsonl", [{"messages": [USER]}] * 3)
    refused(file, "none of the 1 inputs has a conversation with targets (3 have none)", "another --loss-on")


def test_text_is_no_conversation(refused, tmp_path):
    (tmp_path / "in.txt").write_text("the cat")
    refused(tmp_path / "in.txt", "in.txt' holds text by its name", "--glob")


@pytest.mark.parametrize("arguments, parts", [
    (["--append-eod"], ["--append-eod ends documents", "the chat template alone", "leave it away"]),
    (["--eod-token", "</s>"], ["--eod-token ends documents"]),
    (["--format", "text"], ["--format is text", "jsonl or parquet"]),
    (["--loss-on", "first"], ["'first'", "assistant"]),
    (["--chat-template", "absent.jinja"], ["cannot read chat template 'absent.jinja'"]),
])
def test_options_that_do_not_fit_are_refused(refused, tmp_path, arguments, parts):
    refused(write_objects(tmp_path / "in.jsonl", [GOOD]), *parts, arguments=arguments)


def test_options_of_conversations_need_them(tokenizer, tmp_path, capsys):
    file = write_lines(tmp_path / "in.jsonl", ["the cat"])
    for option in (["--loss-on", "all"], ["--chat-template", "x"]):
        with pytest.raises(SystemExit):
            build("--from", file, "--tokenizer", tokenizer, "--out", tmp_path / "c", *option)
        assert f"{option[0]} is for conversations; give --chat" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        build("--from", file, "--train-tokenizer", 300, "--chat", "--out", tmp_path / "c")
    assert "--chat needs the --tokenizer whose chat template it takes" in capsys.readouterr().err


def test_a_tokenizer_without_a_template_and_a_broken_one_are_refused(refused, tokenizer, tmp_path):
    file = write_objects(tmp_path / "in.jsonl", [GOOD])
    refused(file, "has no chat template", "--chat-template FILE", model=tokenizer)
    (tmp_path / "broken.jinja").write_text("{% for m in messages %}")
    refused(file, "broken.jinja' fails: ", "endfor", arguments=["--chat-template", tmp_path / "broken.jinja"])
    (tmp_path / "latin.jinja").write_bytes(b"\xe9")
    refused(file, "latin.jinja' is no UTF-8 text", arguments=["--chat-template", tmp_path / "latin.jinja"])
