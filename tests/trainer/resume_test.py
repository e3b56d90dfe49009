"""A run that goes on from a checkpoint has the bits of one that was not stopped."""

import pytest
import torch
from transformers import TrainerCallback
from uneven import Noted, arguments, documents, tiny_model


class Stop(TrainerCallback):
    """Ends a run after a step."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **_):
        control.should_training_stop = state.global_step == self.step


def make(folder, callbacks=(), dropout=0.1, **changes):
    model = tiny_model()
    model.config.attention_dropout = dropout
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = dropout  # numbers that a run draws in every step
    return Noted(model, arguments(folder, **changes), train_dataset=documents(), max_tokens=64, callbacks=list(callbacks))


@pytest.fixture(scope="module", name="whole")
def fixture_whole(tmp_path_factory):
    trainer = make(tmp_path_factory.mktemp("whole"), save_strategy="steps", save_steps=1)
    trainer.train()
    return trainer


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("step", [1, 3, 4, 7])  # inside an epoch of 4 steps, at its end, in the next one
def test_from_any_step_with_the_same_documents(tmp_path, whole, step, workers):
    again = make(tmp_path, dataloader_num_workers=workers)
    again.train(resume_from_checkpoint=f"{whole.args.output_dir}/checkpoint-{step}")
    assert again.trained == whole.trained[step:]
    for ours, expected in zip(again.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(ours, expected)


def test_a_run_that_was_stopped_goes_on_from_its_last_checkpoint(tmp_path, whole):
    stopped = make(tmp_path, [Stop(6)], save_strategy="steps", save_steps=5)
    stopped.train()
    again = make(tmp_path)
    again.train(resume_from_checkpoint=True)
    assert again.trained == whole.trained[5:]
    for ours, expected in zip(again.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(ours, expected)


def test_without_skipping_data_the_epoch_begins_anew(tmp_path, whole):
    again = make(tmp_path, ignore_data_skip=True)
    again.train(resume_from_checkpoint=f"{whole.args.output_dir}/checkpoint-6")
    # The 2 steps that are left of 8 take the first documents of the second epoch again
    assert again.trained == whole.trained[4:6] and again.state.global_step == 8
