"""Long documents in slices have the gradients of whole ones."""

import peft
import pytest
import torch
from slimpack import InvalidInput
from slimpack.torch import SlimPackTrainer
from sft_test import conversations, prepared
from sft_test import make as make_sft
from uneven import (
    Noted,
    arguments,
    documents,
    largest_difference,
    mean_loss,
    named,
    plain_losses,
    tiny_model,
    train_in_fp64,
)


@pytest.mark.parametrize(("slice_tokens", "max_tokens"), [(8, 20), (1, 1), (16, None)])
def test_weights_are_those_of_one_document_at_a_time(tmp_path, slice_tokens, max_tokens):
    rows, args = documents(), arguments(tmp_path)
    trainer = Noted(tiny_model(), args, train_dataset=rows, eval_dataset=rows, max_tokens=max_tokens,
                    max_slice_tokens=slice_tokens)
    train_in_fp64(trainer)
    plain, steps = tiny_model(), named(rows, trainer.trained)
    assert sorted(len(step) for step in steps) == [1, 1, 4, 4, 4, 4, 4, 4]
    plain_losses(plain, steps, args)
    assert largest_difference(trainer.model, plain) < 1e-12
    assert abs(trainer.evaluate()["eval_loss"] / mean_loss(plain, rows) - 1) < 1e-6


def test_documents_up_to_a_slice_run_whole(tmp_path):
    trainer = SlimPackTrainer(tiny_model(), arguments(tmp_path), train_dataset=documents([8, 9, 3, 20]), max_tokens=12,
                              max_slice_tokens=8)
    (step,) = trainer.get_train_dataloader()
    assert sorted(batch["input_ids"].shape[1] for batch in step["long"]) == [9, 20]
    assert sorted(batch["input_ids"].shape[1] for batch in step["micro_batches"]) == [11]  # 8 + 3


def test_conversations_and_adapters(tmp_path):
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
    trainer = make_sft(tmp_path, [{"messages": chat} for chat in conversations()], peft_config=config, max_tokens=100,
                       max_slice_tokens=30)
    plain = peft.get_peft_model(tiny_model(), config)
    plain.load_state_dict(trainer.model.state_dict())
    train_in_fp64(trainer)
    plain_losses(plain, named(prepared(trainer), trainer.trained), trainer.args)
    assert largest_difference(trainer.model, plain) < 1e-10


MISUSES = {
    "slices above the cap": ({"max_tokens": 40, "max_slice_tokens": 41}, r"max_slice_tokens is 41, above max_tokens, which"),
    "no slices": ({"max_slice_tokens": 0}, r"max_slice_tokens is 0, must be"),
    "another loss": ({"max_slice_tokens": 8, "compute_loss_func": lambda *_, **__: 0},
                     r"the trainer has compute_loss_func, slices have the loss of next tokens alone"),
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_misuse(tmp_path, misuse):
    options, message = MISUSES[misuse]
    with pytest.raises(InvalidInput, match=message):
        SlimPackTrainer(tiny_model(), arguments(tmp_path), train_dataset=documents(), **options)


def test_dropout_is_refused(tmp_path):
    model = tiny_model()
    model.dropout = torch.nn.Dropout(0.1)
    with pytest.raises(InvalidInput, match=r"dropout drops 0.1 of its numbers"):
        SlimPackTrainer(model, arguments(tmp_path), train_dataset=documents(), max_slice_tokens=8)
