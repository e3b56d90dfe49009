"""`slimpack data build --chat`: tokens and masks of conversations, against transformers where the template marks
what the assistant says, and against a slow search in the text where it does not."""

import random
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chat_data import (CHATML, STYLES, Style, built_in, files_of_chat, make_folder, random_messages, read_mask, said,
                       write_objects)
from slimpack.text import batches
from text_data import build, read_megatron, run
from tokenizers import Tokenizer
from transformers import AutoTokenizer


@pytest.fixture(scope="module", name="folder")
def fixture_folder(tmp_path_factory):
    """The folder of a style's model, with or without marks in its template."""
    made = {}

    def folder(name, marks=False):
        if (name, marks) not in made:
            made[name, marks] = make_folder(tmp_path_factory.mktemp("model"), STYLES[name], marks)
        return made[name, marks]
    return folder


@pytest.fixture(name="built")
def fixture_built(tmp_path):
    """Tokens and masks of what objects become."""
    return partial(built_in, tmp_path)


def conversations(seed, count=40):
    r = random.Random(seed)
    return [random_messages(r) for _ in range(count)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", STYLES)
def test_with_marks_tokens_and_masks_are_those_of_transformers(folder, built, name, seed):
    model, chats = folder(name, True), conversations(seed)
    tokens, masks = built(model, [{"messages": chat} for chat in chats])
    theirs = AutoTokenizer.from_pretrained(model)
    for chat, ids, mask in zip(chats, tokens, masks, strict=True):
        expected = theirs.apply_chat_template(chat, return_dict=True, return_assistant_tokens_mask=True)
        assert ids == expected["input_ids"]
        assert mask == expected["assistant_masks"]


def searched(model, style, chat, wanted):
    """Tokens and mask by a search for the contents, of which each stands once in the text. `wanted`: the messages
    that count. What a style puts before and behind an answer is known here; whether a character counts is asked
    for every character of every token."""
    library = Tokenizer.from_file(str(model / "tokenizer.json"))
    text = AutoTokenizer.from_pretrained(model).apply_chat_template(chat, tokenize=False)
    counts = [False] * len(text)
    for at in wanted:
        content = chat[at]["content"]
        content = content.strip() if content.strip() + style.end in text else content
        assert text.count(content) == 1
        begin = text.index(content)
        end = begin + len(content) + len(style.end)
        assert text[begin + len(content):end] == style.end
        for before in ("<think>\n\n</think>\n\n", " " if style is STYLES["mistral"] else ""):
            begin -= len(before) if text[:begin].endswith(before) else 0
        counts[begin:end] = [True] * (end - begin)
    encoding = library.encode(text, add_special_tokens=False)
    mask = []
    for begin, end in encoding.offsets:
        assert len(set(counts[begin:end])) == 1
        mask.append(int(counts[begin]))
    return encoding.ids, mask


def answers(chat):
    return [i for i, message in enumerate(chat) if message["role"] == "assistant"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", STYLES)
def test_without_marks_masks_are_found_by_the_texts_of_the_first_messages(folder, built, name, seed):
    """Two templates write earlier turns otherwise: Qwen3 leaves their thinking out, Mistral puts the system's text
    into the last turn of the user."""
    model, chats = folder(name), conversations(seed)
    tokens, masks = built(model, [{"messages": chat} for chat in chats])
    last_tokens, last_masks = built(model, [{"messages": chat} for chat in chats], "--loss-on", "last")
    for at, chat in enumerate(chats):
        assert (tokens[at], masks[at]) == searched(model, STYLES[name], chat, answers(chat))
        assert (last_tokens[at], last_masks[at]) == searched(model, STYLES[name], chat, answers(chat)[-1:])


@pytest.mark.parametrize("name", STYLES)
def test_the_last_turn_with_marks_is_the_last_run_of_all(folder, built, name):
    model, chats = folder(name, True), conversations(7)
    objects = [{"messages": chat} for chat in chats]
    tokens, masks = built(model, objects)
    last = built(model, objects, "--loss-on", "last")
    assert last[0] == tokens
    for ids, mask, of_last in zip(tokens, masks, last[1], strict=True):
        assert said(model, ids, of_last) == said(model, ids, mask)[-1:]


def test_all_tokens_of_a_conversation_may_count(folder, built):
    chats = [[{"role": "user", "content": "the cat"}], *conversations(1, 5)]
    tokens, masks = built(folder("llama-3"), [{"messages": chat} for chat in chats], "--loss-on", "all")
    assert len(tokens) == 6 and masks == [[1] * len(ids) for ids in tokens]


QUESTION, ANSWER = {"role": "user", "content": "the cat"}, {"role": "assistant", "content": "sat on"}


@pytest.mark.parametrize("marks", [False, True])
def test_a_token_that_ends_every_text_belongs_to_the_last_answer_alone(tmp_path, built, marks):
    """Phi-3's template ends a text with it, whoever spoke last, unless an answer begins there."""
    style = Style(
        "{% for m in messages %}{{ '<|' + m.role + '|>' }}{% if m.role == 'assistant' %}BEGIN{{ m.content + '<|end|>' }}END"
        "{% else %}{{ m.content + '<|end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}"
        "{% elif messages[-1].role == 'assistant' %}BEGIN{{ eos_token }}END{% else %}{{ eos_token }}{% endif %}",
        ["<|user|>", "<|assistant|>", "<|end|>"], "<|end|>")
    model = make_folder(tmp_path / "model", style, marks)
    tokens, masks = built(model, [{"messages": [QUESTION, ANSWER] * 2}, {"messages": [QUESTION, ANSWER, QUESTION]}])
    assert [said(model, ids, mask) for ids, mask in zip(tokens, masks)] == [
        ["sat on<|end|>", "sat on<|end|></s>"], ["sat on<|end|>"]]
    whole = Tokenizer.from_file(str(model / "tokenizer.json")).decode(tokens[1], skip_special_tokens=False)
    assert whole == "<|user|>the cat<|end|><|assistant|>sat on<|end|><|user|>the cat<|end|></s>"


CALL = {"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
TOOLS = [{"type": "function", "function": {"name": "f"}}]
WITH_TOOLS = [{"role": "system", "content": "be"}, {"role": "user", "content": "the cat"},
              {"role": "assistant", "content": None, "tool_calls": [CALL]}, {"role": "tool", "content": "one"},
              {"role": "tool", "content": "two"}, {"role": "assistant", "content": "sat on"}]


@pytest.mark.parametrize("marks", [False, True])
@pytest.mark.parametrize("tools", [TOOLS, None, '[{"type": "function", "function": {"name": "f"}}]'])
def test_calls_of_tools_are_targets_and_their_answers_are_none(folder, built, marks, tools):
    model = folder("qwen-2.5", marks)
    tokens, masks = built(model, [{"messages": WITH_TOOLS, "tools": tools}])
    assert said(model, tokens[0], masks[0]) == [
        '\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call><|im_end|>\n', "sat on<|im_end|>\n"]
    text = Tokenizer.from_file(str(model / "tokenizer.json")).decode(tokens[0], skip_special_tokens=False)
    assert ('{"type": "function", "function": {"name": "f"}}' in text) == (tools is not None)


def test_reasoning_is_a_target_where_the_template_writes_it(folder, built):
    chat = [{"role": "user", "content": "the cat"},
            {"role": "assistant", "content": "sat", "reasoning_content": "because"},
            {"role": "user", "content": "and"}, {"role": "assistant", "content": "on", "reasoning_content": "then"}]
    model = folder("qwen-3")
    tokens, masks = built(model, [{"messages": chat}])
    assert said(model, tokens[0], masks[0]) == ["sat<|im_end|>\n", "<think>\nthen\n</think>\n\non<|im_end|>\n"]


@pytest.mark.parametrize("call", [CALL, CALL["function"]])
def test_a_call_of_a_tool_is_found_that_the_template_writes_otherwise_when_it_is_the_last(tmp_path, built, call):
    """Qwen3 puts empty thinking before a turn without any, but only before the last."""
    flat = "call.function" if call is CALL else "call"
    style = STYLES["qwen-3"]
    model = make_folder(tmp_path / "model", style, template=style.text(False).replace("call.function", flat))
    chat = [*WITH_TOOLS[:2], {**WITH_TOOLS[2], "content": "", "tool_calls": [call, call]}, *WITH_TOOLS[3:]]
    tokens, masks = built(model, [{"messages": chat}])
    assert said(model, tokens[0], masks[0]) == [
        '<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>' * 2 + "<|im_end|>\n",
        "<think>\n\n</think>\n\nsat on<|im_end|>\n"]


EARLIER = [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "c"}]


@pytest.mark.parametrize("marks", [False, True])
def test_prompts_and_completions_are_messages(folder, built, marks):
    model = folder("qwen-2.5", marks)
    tokens, masks = built(model, [
        {"messages": [QUESTION, ANSWER]}, {"prompt": "the cat", "completion": "sat on"},
        {"prompt": [QUESTION], "completion": [ANSWER], "messages": None},
        {"prompt": [*EARLIER, QUESTION], "completion": "sat on"}, {"messages": [*EARLIER, QUESTION, ANSWER]}])
    assert tokens[:2] == tokens[1:3] and masks[:2] == masks[1:3]
    runs = [said(model, ids, mask) for ids, mask in zip(tokens, masks)]
    assert runs[3] == ["sat on<|im_end|>\n"]  # an answer in the prompt is none of the completion
    assert tokens[3] == tokens[4] and runs[4] == ["c<|im_end|>\n", "sat on<|im_end|>\n"]


def test_contents_may_be_lists_of_texts(folder, built):
    parts = [{"type": "text", "text": "the "}, {"type": "text", "text": "cat"}]
    tokens, masks = built(folder("gemma"), [{"messages": [{"role": "user", "content": parts}, ANSWER]},
                                            {"messages": [QUESTION, {**ANSWER, "content": ["sat", " on"]}]},
                                            {"messages": [QUESTION, ANSWER]}])
    assert tokens == tokens[:1] * 3 and masks == masks[:1] * 3


def test_parquet_gives_what_json_lines_give(folder, built, tmp_path):
    chats = conversations(3, 30)
    expected = built(folder("llama-3"), [{"messages": chat} for chat in chats])
    table = pa.table({"id": range(30), "messages": chats, "prompt": ["other"] * 30})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=7)
    assert build("--chat", "--from", tmp_path / "in.parquet", "--tokenizer", folder("llama-3"), "--out",
                 tmp_path / "p", "--processes", 1) == 0
    assert (read_megatron(tmp_path / "p")[1], read_mask(tmp_path / "p")) == expected


def test_parquet_may_have_prompts_and_completions_and_tools_as_text(folder, built, tmp_path):
    expected = built(folder("qwen-2.5"), [{"prompt": "the cat", "completion": "sat", "tools": TOOLS}])
    pq.write_table(pa.table({"prompt": ["the cat"], "completion": ["sat"], "other": [1],
                             "tools": ['[{"type": "function", "function": {"name": "f"}}]']}), tmp_path / "in.parquet")
    assert build("--chat", "--from", tmp_path / "in.parquet", "--tokenizer", folder("qwen-2.5"), "--out",
                 tmp_path / "p", "--processes", 1) == 0
    assert (read_megatron(tmp_path / "p")[1], read_mask(tmp_path / "p")) == expected


def test_a_named_template_stands_in_place_of_the_tokenizers(folder, built, tmp_path):
    (tmp_path / "own.jinja").write_text(STYLES["smollm2"].text(True))
    chats = [{"messages": chat} for chat in conversations(4, 9)]
    own = built(folder("qwen-2.5"), chats, "--chat-template", tmp_path / "own.jinja")
    assert own == built(folder("smollm2", True), chats)


def test_no_token_is_added_to_what_the_template_writes(built, tmp_path):
    """Neither that which begins a text nor that which ends one, which the tokenizer puts around others."""
    from tokenizers.processors import TemplateProcessing
    style = Style("{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}", CHATML, "</s>")
    model = make_folder(tmp_path / "model", style)
    library = Tokenizer.from_file(str(model / "tokenizer.json"))
    library.post_processor = TemplateProcessing(single="<s> $A </s>", special_tokens=[
        (token, library.token_to_id(token)) for token in ("<s>", "</s>")])
    library.save(str(model / "tokenizer.json"))
    tokens, masks = built(model, [{"messages": [QUESTION, ANSWER]}])
    assert library.decode(tokens[0], skip_special_tokens=False) == "<s>the cat</s>sat on</s>"
    assert said(model, tokens[0], masks[0]) == ["sat on</s>"]


def test_a_space_is_found_in_a_token_whose_place_leaves_it_out(built, tmp_path):
    """' sat' would seem to begin behind its space, where the answer begins."""
    from tokenizers.processors import ByteLevel
    style = Style("{% for m in messages %}{{ m.content }}{% endfor %}", CHATML, "")
    model = make_folder(tmp_path / "model", style)
    library = Tokenizer.from_file(str(model / "tokenizer.json"))
    library.post_processor = ByteLevel(trim_offsets=True)
    library.save(str(model / "tokenizer.json"))
    tokens, masks = built(model, [{"prompt": "the cat ", "completion": "sat"}])
    assert tokens[0] == library.encode("the cat ").ids + library.encode("sat").ids
    assert said(model, tokens[0], masks[0]) == ["sat"]


def test_the_report_counts_conversations_tokens_and_targets(folder, tmp_path, capsys):
    model = folder("smollm2")
    write_objects(tmp_path / "in.jsonl", [{"messages": [QUESTION, ANSWER]}, {"messages": [QUESTION]},
                                          {"messages": [QUESTION, ANSWER]}, {"messages": [QUESTION]}])
    assert build("--chat", "--from", tmp_path / "in.jsonl", "--tokenizer", model, "--out", tmp_path / "c",
                 "--processes", 1) == 0
    tokens, masks = read_megatron(tmp_path / "c")[1], read_mask(tmp_path / "c")
    count, targets = sum(map(len, tokens)), sum(map(sum, masks))
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"{tmp_path}/c.bin and c.idx: 2 conversations, {count} tokens (uint16)"
    assert printed[2] == (f"{tmp_path}/c.mask.bin and c.mask.idx: {targets / count:.1%} of the tokens are targets "
                          f"({targets})")
    assert printed[3].startswith(f"chat template of '{model}': the texts of the first messages say where")
    assert printed[4] == (f"2 conversations without targets left out, the first: '{tmp_path}/in.jsonl': line 2 "
                          "(its roles are 'user', none is 'assistant')")
    assert printed[5] == f"next: slimpack data inspect {tmp_path}/c --show 3 --tokenizer {model}"


def test_any_number_of_processes_gives_the_same_bytes(folder, tmp_path, monkeypatch):
    write_objects(tmp_path / "in.jsonl", [{"messages": chat} for chat in conversations(5, 400)])
    arguments = ["--chat", "--from", tmp_path / "in.jsonl", "--tokenizer", folder("qwen-3"), "--processes"]
    monkeypatch.setattr(batches, "BATCH_BYTES", 20_000)
    assert build(*arguments, 1, "--out", tmp_path / "one") == 0
    assert run(*arguments, 3, "--out", tmp_path / "three").returncode == 0
    assert files_of_chat(tmp_path / "one") == files_of_chat(tmp_path / "three")


def test_a_text_is_cut_where_an_answer_begins_within_a_token(built, tmp_path, capsys):
    """transformers encodes " cat" as one token. Generation goes on from a prompt that ends with " c"."""
    model = make_folder(tmp_path / "model", Style("{% for m in messages %}{{ m.content }}{% endfor %}", [], ""))
    library, theirs = Tokenizer.from_file(str(model / "tokenizer.json")), AutoTokenizer.from_pretrained(model)
    tokens, masks = built(model, [{"prompt": "the cat", "completion": " sat"},
                                  {"prompt": "the c", "completion": "at on"}])
    chat = [{"role": "user", "content": "the c"}, {"role": "assistant", "content": "at on"}]
    prompt = theirs.apply_chat_template(chat[:1])["input_ids"]
    assert tokens[1][:len(prompt)] == prompt and masks[1][:len(prompt)] == [0] * len(prompt)
    assert all(masks[1][len(prompt):]) and said(model, tokens[1], masks[1]) == ["at on"]
    whole = theirs.apply_chat_template(chat)["input_ids"]
    assert len(whole) < len(tokens[1])
    assert library.decode(whole, skip_special_tokens=False) == library.decode(tokens[1], skip_special_tokens=False)
    assert "1 conversation with a turn that begins or ends within a token, the first: " in capsys.readouterr().out
