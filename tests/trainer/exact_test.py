"""SlimPackTrainer trains as one document at a time does."""

import collections

import datasets
import numpy as np
import pytest
import torch
from sft import tokenizer
from slimpack.torch import SlimPackTrainer
from transformers import DataCollatorForLanguageModeling
from uneven import (
    LENGTHS,
    Noted,
    arguments,
    documents,
    largest_difference,
    logged,
    mean_loss,
    named,
    plain_losses,
    tiny_model,
    train_in_fp64,
)


@pytest.mark.parametrize("max_tokens", [40, 64, None])
def test_losses_and_weights_are_those_of_one_document_at_a_time(tmp_path, max_tokens):
    rows, args = documents(), arguments(tmp_path)
    trainer = Noted(tiny_model(), args, train_dataset=rows, max_tokens=max_tokens)
    losses = train_in_fp64(trainer)
    steps = named(rows, trainer.trained)
    # 13 documents, 4 of them in a step: 3 steps and a last one of 1, twice
    assert [len(step) for step in steps] == [4, 4, 4, 1] * 2
    times = collections.Counter(tuple(row["input_ids"]) for step in steps for row in step)
    assert set(times.values()) == {2} and len(times) == len(LENGTHS)
    plain = tiny_model()
    assert np.allclose(losses, plain_losses(plain, steps, args), rtol=1e-6, atol=0)  # Trainer adds them in fp32
    assert largest_difference(trainer.model, plain) < 1e-12


def test_micro_batches_are_as_few_as_hold_the_documents_of_a_step_under_the_cap(tmp_path):
    # 12 + 6 | 10 + 8 | 7 + 5 + 4 + 2: 54 tokens need 3 micro-batches of 18, and best fit finds them
    rows = documents([12, 10, 8, 7, 6, 5, 4, 2])
    trainer = SlimPackTrainer(tiny_model(), arguments(tmp_path), train_dataset=rows, max_tokens=18)
    assert trainer.args.per_device_train_batch_size == 4 and trainer.args.gradient_accumulation_steps == 1
    args = arguments(tmp_path, per_device_train_batch_size=8)
    trainer = SlimPackTrainer(tiny_model(), args, train_dataset=rows, max_tokens=18)
    assert args.gradient_accumulation_steps == 2  # the user's own stay as they were
    (step,) = list(trainer.get_train_dataloader())
    assert sorted(batch["input_ids"].shape[1] for batch in step["micro_batches"]) == [18, 18, 18]


def test_a_cap_that_is_not_given_is_the_largest_padded_batch(tmp_path):
    trainer = SlimPackTrainer(tiny_model(), arguments(tmp_path), train_dataset=documents())
    # batches of 2 documents, the longest of 40 tokens
    batches = [batch for step in trainer.get_train_dataloader() for batch in step["micro_batches"]]
    assert 40 < max(batch["input_ids"].shape[1] for batch in batches) <= 80


def test_steps_epochs_and_tokens_count_as_ever(tmp_path):
    args = arguments(tmp_path, max_steps=6, include_num_input_tokens_seen="all")
    trainer = SlimPackTrainer(tiny_model(), args, train_dataset=documents())
    trainer.train()
    # 4 steps are an epoch; the 2 of the second have 8 documents, whose tokens depend on the order
    assert (trainer.state.global_step, trainer.state.max_steps, trainer.state.epoch) == (6, 6, 1.5)
    assert len(trainer.get_train_dataloader()) == 4
    assert logged(trainer, "epoch")[:6] == [0.25, 0.5, 0.75, 1.0, 1.25, 1.5]
    assert np.allclose(logged(trainer, "learning_rate"), [1e-2 * (1 - step / 6) for step in range(6)])
    seen = logged(trainer, "num_input_tokens_seen")
    assert seen[3] == sum(LENGTHS) and seen == sorted(seen)


def test_the_order_is_another_one_in_each_epoch_unless_it_is_sequential(tmp_path):
    def order(**changes):
        trainer = SlimPackTrainer(tiny_model(), arguments(tmp_path, **changes), train_dataset=documents())
        loader, found = trainer.get_train_dataloader(), []
        for epoch in range(2):
            loader.batch_sampler.set_epoch(epoch)
            found.append([step["documents"] for step in loader])
        return found

    first, second = order()
    assert first != second and order() == [first, second] and order(seed=6)[0] != first
    first, second = order(train_sampling_strategy="sequential")
    assert first == second and [sorted(of_rank) for (of_rank,) in first] == [
        [0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12]]


def test_masks_and_workers_give_the_same_as_labels(tmp_path):
    rows = documents()
    masked = datasets.Dataset.from_list([
        {"input_ids": row["input_ids"], "assistant_masks": [int(label != -100) for label in row["labels"]]}
        for row in rows])
    found = []
    for dataset, workers in ((rows, 0), (masked, 2)):
        trainer = SlimPackTrainer(tiny_model(), arguments(tmp_path, dataloader_num_workers=workers), train_dataset=dataset)
        trainer.train()
        found.append(list(trainer.model.parameters()))
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*found, strict=True))


def test_a_step_without_targets_changes_no_weight(tmp_path):
    rows = documents([5, 6])
    rows[0]["labels"] = [-100] * 5
    trainer = SlimPackTrainer(tiny_model(), arguments(tmp_path), train_dataset=rows)
    trainer.train()
    assert logged(trainer) == [0.0, 0.0] and largest_difference(trainer.model, tiny_model()) == 0


@pytest.mark.parametrize("max_tokens", [40, None])
def test_an_evaluation_is_the_mean_over_all_targets(tmp_path, max_tokens):
    rows, model = documents(), tiny_model()
    trainer = SlimPackTrainer(model, arguments(tmp_path), eval_dataset=rows, max_tokens=max_tokens)
    assert np.isclose(trainer.evaluate()["eval_loss"], mean_loss(tiny_model(), rows), rtol=1e-6)
    metrics = trainer.evaluate({"short": rows[1:4], "long": rows[:1]})
    assert np.isclose(metrics["eval_long_loss"], mean_loss(tiny_model(), rows[:1]), rtol=1e-6)
    assert np.isclose(metrics["eval_short_loss"], mean_loss(tiny_model(), rows[1:4]), rtol=1e-6)


@pytest.mark.parametrize("by_batch", [False, True])
def test_metrics_get_each_document_as_alone_in_the_order_of_the_dataset(tmp_path, by_batch):
    rows, seen, last = documents(), [], []

    def compute_metrics(prediction, compute_result=True):
        seen.append((torch.as_tensor(prediction.predictions).clone(), torch.as_tensor(prediction.label_ids).clone()))
        last.append(compute_result)
        return {"batches": len(seen)} if compute_result else {}

    args = arguments(tmp_path, per_device_eval_batch_size=13 if not by_batch else 4, batch_eval_metrics=by_batch)
    trainer = SlimPackTrainer(tiny_model(), args, eval_dataset=rows, compute_metrics=compute_metrics, max_tokens=64)
    assert trainer.evaluate()["eval_batches"] == (4 if by_batch else 1)
    assert last == ([False, False, False, True] if by_batch else [True])
    found = [pair for predictions, labels in seen for pair in zip(predictions, labels, strict=True)]
    predicted = trainer.predict(rows)
    for number, row in enumerate(rows):
        logits = tiny_model()(input_ids=torch.tensor([row["input_ids"]])).logits[0]
        for ours, labels in (found[number], (predicted.predictions[number], predicted.label_ids[number])):
            length = len(row["input_ids"])
            assert np.allclose(ours[:length], logits.detach(), atol=1e-5) and (ours[length:] == -100).all()
            assert labels[1:length].tolist() == row["labels"][1:] and (labels[length:] == -100).all()


def test_a_collator_is_asked_for_one_document_at_a_time(tmp_path):
    """transformers' own leaves tokens like the padding out of the loss, also where a document ends with them."""
    rows = [{"input_ids": [5, 6, 0]}, {"input_ids": [7, 8]}]
    collate = DataCollatorForLanguageModeling(tokenizer(tmp_path), mlm=False, pad_to_multiple_of=8)
    trainer = SlimPackTrainer(tiny_model(), arguments(tmp_path, train_sampling_strategy="sequential"), train_dataset=rows,
                              data_collator=collate)
    ((batch,),) = [step["micro_batches"] for step in trainer.get_train_dataloader()]
    assert {(5, 6, 0, 7, 8): (-100, 6, -100, -100, 8), (7, 8, 5, 6, 0): (-100, 8, -100, 6, -100)}[
        tuple(batch["input_ids"][0].tolist())] == tuple(batch["labels"][0].tolist())


def test_a_loss_of_ones_own_is_normalised_over_the_step(tmp_path):
    def compute_loss(outputs, labels, num_items_in_batch=None):
        logits, targets = outputs["logits"][0, :-1], labels[0, 1:]
        return torch.nn.functional.cross_entropy(logits, targets, reduction="sum") / num_items_in_batch

    rows, args = documents(), arguments(tmp_path)
    trainer = Noted(tiny_model(), args, train_dataset=rows, compute_loss_func=compute_loss, max_tokens=40)
    train_in_fp64(trainer)
    plain = tiny_model()
    plain_losses(plain, named(rows, trainer.trained), args)
    assert largest_difference(trainer.model, plain) < 1e-12
