"""The examples of losses: preferences are learned, and rewards rise. Each runs on two processes."""

import json
import random
import re
from pathlib import Path

import pytest
from chat_data import STYLES, make_folder, random_messages, write_objects
from forking import forked_job
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

EXAMPLES = Path(__file__).parents[2] / "examples"


def printed(folder, name, *arguments):
    """The numbers of each line that an example prints on two processes: {name: number}."""
    command = [EXAMPLES / name, *arguments]
    with forked_job(folder, command, command) as processes:
        assert processes.codes() == [0, 0], processes.text()
        lines = processes.text().splitlines()
    found = [dict((key, float(value)) for key, value in re.findall(r"(\w+) +(-?\d+\.\d+)", line)) for line in lines]
    return [numbers for numbers in found if numbers]


def write_pairs(folder):
    """Pairs of which the chosen answer is a word and the rejected one another, to prompts of uneven length."""
    r = random.Random(1)
    pairs = [{"prompt": random_messages(r)[:1] + [{"role": "user", "content": "the cat " * r.randint(1, 60)}],
              "chosen": [{"role": "assistant", "content": "and then"}],
              "rejected": [{"role": "assistant", "content": "the cat"}]} for _ in range(16)]
    return write_objects(folder / "pairs.jsonl", pairs)


def test_answers_that_are_chosen_become_likelier_than_rejected_ones(tmp_path):
    model = make_folder(tmp_path / "model", STYLES["smollm2"], True)
    # SmolLM2's shape made small: three query heads for each head of keys, tied embeddings.
    LlamaForCausalLM(LlamaConfig(vocab_size=400, hidden_size=48, intermediate_size=128, num_hidden_layers=4,
                                 num_attention_heads=6, num_key_value_heads=2, tie_word_embeddings=True,
                                 max_position_embeddings=1024)).save_pretrained(model)
    steps = printed(tmp_path, "dpo.py", write_pairs(tmp_path), "--model", model, "--output", tmp_path / "run",
                    "--learning-rate", "1e-3", "--epochs", "2", "--step-pairs", "8")
    # Before the first update the model is its own reference: a loss of log 2 and no margin.
    assert steps[0]["loss"] == pytest.approx(0.6931, abs=1e-3) and steps[0]["margin"] == pytest.approx(0, abs=1e-3)
    assert steps[-1]["loss"] < 0.6 and steps[-1]["accuracy"] == 1
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "model").config.num_hidden_layers == 4


def rewards(folder, *arguments):
    return [step["reward"] for step in printed(folder, "grpo.py", "--output", folder, *arguments)]


@pytest.mark.whole
def test_rewards_rise(tmp_path):
    found = rewards(tmp_path, "--steps", "10", "--prompts", "12", "--group", "12")
    assert found[0] < 0.3 and sum(found[-2:]) / 2 > 1.4 * found[0], found
    assert json.loads((tmp_path / "model" / "config.json").read_text())["vocab_size"] == 10


@pytest.mark.whole
def test_rewards_rise_above_four_fifths_in_fifty_steps(tmp_path):
    found = rewards(tmp_path)
    assert len(found) == 50 and found[0] < 0.3 and min(found[-5:]) > 0.8
