"""SlimPackTrainer trains as one document at a time does."""

import collections

import numpy as np
import pytest
from slimpack.torch import SlimPackTrainer
from uneven import LENGTHS, arguments, documents, largest_difference, plain_losses, tiny_model, train_in_fp64


class Noted(SlimPackTrainer):
    """Notes the documents of every step, which are told apart by their tokens."""

    def __init__(self, *args, **kwargs):
        self.trained = []
        super().__init__(*args, **kwargs)

    def training_step(self, model, inputs, num_items_in_batch=None):
        found = []
        for batch in inputs["micro_batches"]:
            bounds = batch["cu_seq_lens_q"].tolist()
            found += [batch["input_ids"][0, begin:end].tolist() for begin, end in zip(bounds, bounds[1:], strict=False)]
        self.trained.append(found)
        return super().training_step(model, inputs, num_items_in_batch)


def by_tokens(rows):
    return {tuple(row["input_ids"]): row for row in rows}


@pytest.mark.parametrize("max_tokens", [40, 64, 1000])
def test_losses_and_weights_are_those_of_one_document_at_a_time(tmp_path, max_tokens):
    rows, args = documents(), arguments(tmp_path)
    trainer = Noted(tiny_model(), args, train_dataset=rows, max_tokens=max_tokens)
    losses = train_in_fp64(trainer)
    known = by_tokens(rows)
    steps = [[known[tuple(ids)] for ids in step] for step in trainer.trained]
    # 13 documents, 4 of them in a step: 3 steps and a last one of 1, twice
    assert [len(step) for step in steps] == [4, 4, 4, 1] * 2
    times = collections.Counter(tuple(row["input_ids"]) for step in steps for row in step)
    assert times == dict.fromkeys(known, 2) and len(known) == len(LENGTHS)
    plain = tiny_model()
    assert np.allclose(losses, plain_losses(plain, steps, args), rtol=1e-6, atol=0)  # Trainer adds them in fp32
    assert largest_difference(trainer.model, plain) < 1e-12
