"""Masks of `slimpack data build --chat` against the labels of TRL: random conversations, 1,000 for each
template that writes the assistant's turns. Where the two differ, a test says by which rule."""

import importlib.util
import random
import re
from pathlib import Path

import pytest
from chat_data import STYLES, built_in, make_folder, random_messages, said
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

# Chat templates as their models have them, without marks; TRL has a second one with marks for each.
# GLM 4 is left out: its turns have no token that ends them, and TRL's template puts one there.
PUBLISHED = ["llama3", "qwen2_5", "qwen3", "gemma", "gemma3", "phi3"]
NO_THOUGHT = "<think>\n\n</think>\n\n"
SEEDS = 4
CHATS = 250


@pytest.fixture(scope="module", name="folder")
def fixture_folder(tmp_path_factory):
    """The folder of a style's model, with or without marks in its template; or of one with a published template."""
    made = {}

    def folder(name, marks=False, published=False):
        if (name, marks, published) not in made:
            file = Path(importlib.util.find_spec("trl").origin).parent / "chat_templates" / f"{name}.jinja"
            made[name, marks, published] = make_folder(
                tmp_path_factory.mktemp("model"), STYLES["qwen-2.5" if published else name], marks,
                file.read_text(encoding="utf-8") if published else None)
        return made[name, marks, published]
    return folder


@pytest.fixture(scope="module", name="tiny")
def fixture_tiny():
    """A model, without which TRL makes no trainer. It is not trained."""
    return LlamaForCausalLM(LlamaConfig(vocab_size=500, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                        num_attention_heads=1))


@pytest.fixture(name="both")
def fixture_both(tiny, tmp_path):
    """[(tokens, mask)] of objects, those of slimpack and those of TRL with some settings."""
    import datasets  # takes seconds, of the process alone that runs these tests
    import trl
    datasets.disable_progress_bars()

    def both(model, objects, **settings):
        trainer = trl.SFTTrainer(
            model=tiny, train_dataset=datasets.Dataset.from_list(objects),
            processing_class=AutoTokenizer.from_pretrained(model),
            args=trl.SFTConfig(output_dir=str(tmp_path / "trl"), report_to=[], use_cpu=True, bf16=False,
                               max_length=None, disable_tqdm=True, **settings))
        columns = trainer.train_dataset["input_ids"], trainer.train_dataset["labels"]
        theirs = [(ids, [int(label != -100) for label in labels]) for ids, labels in zip(*columns, strict=True)]
        return list(zip(*built_in(tmp_path, model, objects), strict=True)), theirs
    return both


def conversations(seed, has_system=True):
    """has_system: some begin with a system's turn, which Gemma's template refuses."""
    r = random.Random(seed)
    chats = [random_messages(r) for _ in range(CHATS)]
    return [[turn for turn in chat if turn["role"] != "system" or has_system] for chat in chats]


def answers(chat):
    return sum(turn["role"] == "assistant" for turn in chat)


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", STYLES)
def test_with_marks_all_masks_are_those_of_trl(folder, both, name, seed):
    ours, theirs = both(folder(name, True), [{"messages": chat} for chat in conversations(seed)],
                        assistant_only_loss=True)
    assert ours == theirs


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", PUBLISHED)
def test_without_marks_masks_are_those_of_the_template_that_trl_takes_instead(folder, both, name, seed):
    """Two differences: TRL's template of Qwen2.5 has its mark before the line end that begins an answer, which
    generation finds in the prompt. That of Qwen3 puts empty thinking into earlier turns, too."""
    model, chats = folder(name, published=True), conversations(seed, has_system=name != "gemma")
    ours, theirs = both(model, [{"messages": chat} for chat in chats], assistant_only_loss=True)
    differ = [at for at, (mine, other) in enumerate(zip(ours, theirs, strict=True)) if mine != other]
    for at in differ:
        mine, other = said(model, *ours[at]), said(model, *theirs[at])
        if name == "qwen2_5":
            assert ours[at][0] == theirs[at][0] and ["\n" + run for run in mine] == other
        else:
            assert name == "qwen3" and all(run.startswith(NO_THOUGHT) for run in other)
            assert [run.removeprefix(NO_THOUGHT) for run in mine] == [run.removeprefix(NO_THOUGHT) for run in other]
    assert differ == {
        "qwen2_5": list(range(CHATS)),
        # A turn is an earlier one when the user says something behind it.
        "qwen3": [at for at, chat in enumerate(chats) if answers(chat) > 1 or chat[-1]["role"] == "user"],
    }.get(name, [])


def as_completion(chat, turns=1):
    """The last turns up to the last of the assistant as a completion, and what is before as the prompt."""
    end = max(at for at, turn in enumerate(chat) if turn["role"] == "assistant") + 1
    return {"prompt": chat[:end - turns], "completion": chat[end - turns:end]}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", STYLES)
def test_a_completion_is_what_trl_finds_behind_the_prompt(folder, both, name, seed):
    """One difference: GPT-2's way of parting text, which these tokenizers have, takes two line ends for one token
    at the end of a text and for two before a word. TRL counts what a prompt's tokens do not begin with, so it
    counts the line ends, too."""
    model = folder(name)
    ours, theirs = both(model, [as_completion(chat) for chat in conversations(seed)], completion_only_loss=True)
    if name == "llama-3":
        theirs = [(ids, without_line_ends(model, ids, mask)) for ids, mask in theirs]
    assert ours == theirs


def without_line_ends(model, ids, mask):
    """The mask without two line ends that begin its targets."""
    (run,), first = said(model, ids, mask), mask.index(1)
    assert re.match(r"\n\n\S", run)
    return [*mask[:first], 0, 0, *mask[first + 2:]]


@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("name", STYLES)
def test_of_several_turns_of_a_completion_those_of_the_assistant_count(folder, both, name, seed):
    """TRL counts all turns behind the prompt, also the user's, unless it is told to count the assistant's alone."""
    objects = [as_completion(chat, 3) for chat in conversations(seed) if answers(chat) > 1]
    ours, theirs = both(folder(name, True), objects, completion_only_loss=True, assistant_only_loss=True)
    assert ours == theirs
