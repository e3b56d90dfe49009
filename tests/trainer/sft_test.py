"""TRL's SFTTrainer with SlimPackMixin trains as one conversation at a time does."""

import random

import datasets
import numpy as np
import peft
import pytest
import torch
from sft import tokenizer
from slimpack.torch import SlimPackMixin
from trl import SFTConfig, SFTTrainer
from uneven import (
    Notes,
    arguments,
    documents,
    largest_difference,
    logged,
    mean_loss,
    named,
    plain_losses,
    targets_of,
    tiny_model,
    train_in_fp64,
)

TEMPLATE = """{% for m in messages %}{{ '<s> ' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content + ' </s>' }}
{%- endgeneration %}{{ ' ' }}{% else %}{{ m.content + ' ' }}{% endif %}{% endfor %}"""


class Packed(Notes, SlimPackMixin, SFTTrainer):
    pass


def words(r, most):
    return " ".join(f"w{r.randrange(3, 64)}" for _ in range(r.randint(1, most)))


def conversations(count=9):
    """Uneven ones of one to three turns of the assistant."""
    r = random.Random(1)
    return [[{"role": role, "content": words(r, 30)} for role in ("user", "assistant") * r.randint(1, 3)]
            for _ in range(count)]


def make(folder, rows, **changes):
    words_of_64 = tokenizer(folder)
    words_of_64.chat_template = TEMPLATE
    peft_config = changes.pop("peft_config", None)
    caps = {name: changes.pop(name) for name in ("max_tokens", "max_slice_tokens") if name in changes}
    args = arguments(folder, SFTConfig, **{"max_length": None, **changes})
    return Packed(tiny_model(), args, train_dataset=datasets.Dataset.from_list(rows), processing_class=words_of_64,
                  peft_config=peft_config, **caps)


def prepared(trainer):
    """The rows that SFTTrainer made of its dataset."""
    return [{name: row[name] for name in ("input_ids", "labels")} for row in trainer.train_dataset]


def assert_as_plain(trainer, plain):
    losses, rows = train_in_fp64(trainer), prepared(trainer)
    steps = named(rows, trainer.trained)
    assert sorted(map(str, rows * 2)) == sorted(str(row) for step in steps for row in step)
    assert np.allclose(losses, plain_losses(plain, steps, trainer.args), rtol=1e-6, atol=0)  # Trainer adds them in fp32
    assert largest_difference(trainer.model, plain) < 1e-12


def test_the_assistants_turns_are_the_targets(tmp_path):
    chats = conversations()
    trainer = make(tmp_path, [{"messages": chat} for chat in chats], assistant_only_loss=True, max_tokens=200)
    # a word and the token that ends it, for every turn of the assistant
    expected = [sum(len(m["content"].split()) + 1 for m in chat if m["role"] == "assistant") for chat in chats]
    assert sorted(targets_of([row]) for row in prepared(trainer)) == sorted(expected)
    assert_as_plain(trainer, tiny_model())


def test_completions_are_the_targets(tmp_path):
    r = random.Random(2)
    rows = [{"prompt": words(r, 20), "completion": " " + words(r, 20)} for _ in range(9)]
    trainer = make(tmp_path, rows, max_tokens=64)
    assert sorted(targets_of([row]) for row in prepared(trainer)) == sorted(
        len(row["completion"].split()) + 1 for row in rows)
    assert_as_plain(trainer, tiny_model())


def test_a_mask_that_is_not_asked_for_takes_no_labels_away(tmp_path):
    rows = [{"input_ids": row["input_ids"], "completion_mask": [0] * len(row["input_ids"])} for row in documents()]
    trainer = make(tmp_path, rows, completion_only_loss=False)
    (batch, *_), labels = next(iter(trainer.get_train_dataloader()))["micro_batches"], 0
    starts = batch["cu_seq_lens_q"][:-1].tolist()
    labels = batch["labels"][0]
    assert [at for at, label in enumerate(labels.tolist()) if label == -100] == starts


def test_adapters_of_peft_train_as_alone(tmp_path):
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
    trainer = make(tmp_path, [{"messages": chat} for chat in conversations()], peft_config=config, max_tokens=200)
    plain = peft.get_peft_model(tiny_model(), config)
    plain.load_state_dict(trainer.model.state_dict())
    before = [parameter.clone() for parameter in plain.parameters()]
    assert_as_plain(trainer, plain)
    moved = [not torch.equal(*pair) for pair in zip(before, trainer.model.parameters(), strict=True)]
    assert moved == [parameter.requires_grad for parameter in plain.parameters()] and any(moved)


def test_metrics_of_sft_trainer_go_on(tmp_path):
    rows = documents()
    trainer = make(tmp_path, rows, max_tokens=1000)
    trainer.train()
    counted = logged(trainer, "num_tokens")
    # 13 documents of 186 tokens, twice
    assert counted[3] == 186 and counted[-1] == 2 * 186
    assert all(0 <= share <= 1 for share in logged(trainer, "mean_token_accuracy"))
    assert all(0 < entropy <= np.log(64) for entropy in logged(trainer, "entropy"))
    held_out = datasets.Dataset.from_list(rows[:5])
    assert np.isclose(trainer.evaluate(held_out)["eval_loss"], mean_loss(trainer.model, rows[:5]), rtol=1e-5)
