"""Hugging Face datasets as documents: tokens and targets are those of built files, and mistakes are told by row."""

import json
import random
import warnings
from pathlib import Path

import datasets
import numpy as np
import pytest
import slimpack
from chat_data import STYLES, make_folder, random_messages, write_objects
from forking import forked_job
from slimpack.torch import from_dataset
from text_data import build
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

datasets.disable_progress_bars()
NO_ANSWER = {"messages": [{"role": "user", "content": "the cat"}]}


def of(**columns):
    return datasets.Dataset.from_dict(columns)


def everything(source):
    """By document (tokens, labels)."""
    lengths, read = source
    found = [read(i, 0, n) for i, n in enumerate(lengths)]
    assert [len(one) for one in found] == lengths.tolist()
    return [(one.tokens.tolist(), one.labels.tolist()) for one in found]


def built(tmp_path, objects, *arguments):
    """A dataset of files of the same objects."""
    out = tmp_path / f"built-{len(list(tmp_path.iterdir()))}"
    file = write_objects(tmp_path / "in.jsonl", objects)
    assert build("--from", file, "--out", out, "--processes", 1, *arguments) == 0
    dataset = slimpack.IndexedDataset.open(out)
    return dataset.lengths(), dataset.read


def same(source, files):
    """Whether two sources have the same documents: in files the first token of one is no target by itself."""
    theirs = everything(files)
    return [(tokens, [-100, *labels[1:]]) for tokens, labels in everything(source)] == [
        (tokens, [-100, *labels[1:]]) for tokens, labels in theirs]


@pytest.mark.parametrize("marks", [True, False])
@pytest.mark.parametrize("loss_on", ["assistant", "last", "all"])
def test_conversations_have_the_tokens_and_targets_of_built_files(tmp_path, marks, loss_on):
    r, model = random.Random(1), make_folder(tmp_path / "model", STYLES["qwen-3"], marks)
    objects = [{"messages": random_messages(r)} for _ in range(30)]
    objects.insert(7, NO_ANSWER)
    files = built(tmp_path, objects, "--chat", "--tokenizer", model, "--loss-on", loss_on)
    for tokenizer in (model, AutoTokenizer.from_pretrained(model)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            source = from_dataset(datasets.Dataset.from_list(objects), tokenizer, loss_on=loss_on)
        assert same(source, files)
        assert [str(w.message) for w in caught] == (
            [] if loss_on == "all" else ["1 of the dataset's 31 rows have no target and are left out"])


def test_prompts_with_completions_and_texts_have_those_of_built_files(tmp_path):
    model = make_folder(tmp_path / "model", STYLES["llama-3"])
    objects = [{"prompt": f"the cat n{i}", "completion": "sat on a mat"} for i in range(5)]
    files = built(tmp_path, objects, "--chat", "--tokenizer", model)
    assert same(from_dataset(datasets.Dataset.from_list(objects), model), files)
    objects = [{"text": "the cat"}, {"text": ""}, {"text": "sat on a mat</s>"}]
    files = built(tmp_path, objects, "--tokenizer", model)
    with pytest.warns(UserWarning, match="1 of the dataset's 3 rows have no target"):
        assert same(from_dataset(datasets.Dataset.from_list(objects), model), files)


def test_what_is_encoded_once_is_read_again_from_the_cache_of_datasets(tmp_path, monkeypatch):
    model = make_folder(tmp_path / "model", STYLES["llama-3"], True)
    datasets.Dataset.from_list([{"messages": random_messages(random.Random(2))}] * 3).save_to_disk(tmp_path / "set")
    load = lambda: datasets.load_from_disk(tmp_path / "set")
    first = everything(from_dataset(load(), model))
    from slimpack.text import rows

    monkeypatch.setattr(rows.ConversationRows, "encode", None)  # nobody calls it
    assert everything(from_dataset(load(), model)) == first
    with pytest.raises(TypeError):
        from_dataset(load(), model, loss_on="last")


def test_columns_say_which_tokens_are_targets():
    ids = [[5, 6, 7, 8], [9], [4, 3]]
    everywhere = everything(from_dataset(of(input_ids=ids)))
    assert everywhere == [(tokens, tokens) for tokens in ids]
    labels = [[-100, 6, -100, 8], [9], [-100, 3]]
    assert everything(from_dataset(of(input_ids=ids, labels=labels, other=["a", "b", "c"]))) == list(
        zip(ids, labels, strict=True))
    masks = [[0, 1, 1, 0], [1], [0, 0]]
    for column in ("assistant_masks", "completion_mask"):
        assert everything(from_dataset(of(tokens=ids, **{column: masks}), column="tokens")) == [
            ([5, 6, 7, 8], [-100, 6, 7, -100]), ([9], [9]), ([4, 3], [-100, -100])]
    both = from_dataset(of(input_ids=ids, assistant_masks=masks, completion_mask=[[0, 0, 1, 1], [1], [1, 1]]))
    assert everything(both)[0] == ([5, 6, 7, 8], [-100, -100, 7, -100])


def test_parts_of_rows_have_their_weights():
    _, read = from_dataset(of(input_ids=[[5, 6, 7, 8], [9]], weights=[[1.0, 0.0, 2.5, 0.1], [3.0]]).select([1, 0]))
    part = read(1, 1, 4)
    assert part.tokens.tolist() == part.labels.tolist() == [6, 7, 8]
    np.testing.assert_array_equal(part.weights, [0.0, 2.5, 0.1])
    assert from_dataset(of(input_ids=[[5, 6], [9]]).select([1, 0])).lengths.tolist() == [1, 2]


IDS = [[5, 6, 7], [8, 9]]
STREAMING = of(input_ids=IDS).to_iterable_dataset()


@pytest.mark.parametrize(("dataset", "message"), [
    (STREAMING, r"is a streaming one \(IterableDataset\), whose lengths are not known ahead; load it without"),
    (datasets.DatasetDict(train=of(input_ids=IDS)), r"has the splits 'train'; give one of them, such as dataset\['train'\]"),
    (IDS, r"the dataset is of type list; give a datasets.Dataset"),
    (of(input_ids=[]), r"the dataset has no rows"),
    (of(a=IDS), r"none of the columns 'input_ids', 'messages', 'text', .* it has 'a'; name one with column="),
    (of(input_ids=["a"]), r"the dataset has text and no token ids; give tokenizer="),
    (of(messages=[NO_ANSWER["messages"]]), r"has messages of conversations and no token ids; give tokenizer="),
    (of(input_ids=[[0.5]]), r"the column 'input_ids' has the type list<item: double>, must be lists of numbers"),
    (of(input_ids=[5]), r"the column 'input_ids' has the type int32, must be lists"),
    (of(input_ids=IDS, labels=[[5, 6, 7], [8]]), r"row 1: 'labels' has 1 entries, 'input_ids' has 2; give one"),
    (of(input_ids=IDS, labels=[[5, 6, 7], [8, -1]]), r"row 1: 'labels' has -1 at position 1, must be a token id, or -100"),
    (of(input_ids=IDS, assistant_masks=[[0, 2, 1], [1, 1]]), r"row 0: 'assistant_masks' has 2 at position 1, must be 0 or"),
    (of(input_ids=IDS, weights=[[0, 1, 1], [1.5, -2]]), r"row 1: 'weights' has -2.0 at position 1, must be from 0 to"),
    (of(input_ids=IDS, weights=[[0, float("nan"), 1], [1, 1]]), r"row 0: 'weights' has nan at position 1, must be from"),
    (of(input_ids=IDS, attention_mask=[[1, 1, 1], [1, 0]]), r"row 1: 'attention_mask' has 0 at position 1, .* padding"),
    (of(input_ids=[[5], None]), r"row 1: 'input_ids' is null"),
    (of(input_ids=[[5], [6, None]]), r"row 1: 'input_ids' is null, or an entry of it is"),
    (of(input_ids=IDS).with_transform(lambda rows: rows), r"has a transform that runs when rows are read"),
])
def test_what_is_no_source_is_refused_in_one_line(dataset, message):
    with pytest.raises(slimpack.InvalidInput, match=message) as raised:
        from_dataset(dataset)
    assert "\n" not in str(raised.value)


def test_conversations_that_are_none_are_told_by_row(tmp_path):
    model = make_folder(tmp_path / "model", STYLES["llama-3"])
    good = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    for rows, options, message in (
            ([good, [{"role": None, "content": "x"}]], {}, r"row 1: message 1 of 'messages': the role is missing"),
            ([good, []], {}, r"row 1: field 'messages' has no message"),
            ([NO_ANSWER["messages"]], {}, r"none of the dataset's 1 rows has a target"),
            ([good], {"column": "chat"}, r"no column 'chat', it has 'messages'; name another one"),
            ([good], {"loss_on": "user"}, r"loss_on is 'user', must be one of assistant, last, all")):
        with pytest.raises(slimpack.InvalidInput, match=message) as raised:
            from_dataset(of(messages=rows), model, **options)
        assert "\n" not in str(raised.value)


def test_the_example_trains_on_conversations_on_two_stages(tmp_path):
    model, r = make_folder(tmp_path / "model", STYLES["smollm2"], True), random.Random(3)
    LlamaForCausalLM(LlamaConfig(vocab_size=400, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                                 num_attention_heads=4)).save_pretrained(model)
    chats = write_objects(tmp_path / "chats.jsonl", [{"messages": random_messages(r)} for _ in range(30)])
    example = Path(__file__).parents[2] / "examples" / "train_on_chats.py"
    command = [example, chats, "--model", model, "--output", tmp_path / "run", "--context", "64", "--step-tokens",
               "256", "--steps", "4", "--held-out", "6"]
    with forked_job(tmp_path, command, command) as processes:
        assert processes.codes() == [0, 0], processes.text()
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    losses = {name: [line["evaluation_loss"] for line in lines if line.get("set") == name]
              for name in ("short", "long")}
    assert all(len(of_set) == 2 and of_set[1] < of_set[0] for of_set in losses.values())
