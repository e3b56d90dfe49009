"""Trainer and SFTTrainer on two ranks: they end, and train as one document at a time does."""

from pathlib import Path

import numpy as np
import pytest
import torch
from forking import forked_job
from slimpack.torch import SlimPackTrainer
from trainer_ranks import CASES, KINDS, RESUMED, checksum
from uneven import arguments, documents, mean_loss, named, plain_losses, tiny_model

RANKS = 2


@pytest.fixture(scope="module", name="found")
def fixture_found(tmp_path_factory):
    """By kind and case what each rank found."""
    folder = tmp_path_factory.mktemp("ranks")
    with forked_job(folder, *[[Path(__file__).with_name("trainer_ranks.py"), folder]] * RANKS) as running:
        assert set(running.codes()) == {0}, running.text()
    return {(kind, case): [torch.load(folder / f"{kind} {case} {rank}.pt", weights_only=False) for rank in range(RANKS)]
            for kind in KINDS for case in CASES}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_two_ranks_train_as_one_document_at_a_time(tmp_path, found, kind, case):
    lengths, held_out, settings = CASES[case]
    rows, (first, second) = documents(lengths), found[kind, case]
    assert first["micro-batches"] == second["micro-batches"] and first["losses"] == second["losses"]
    trained = [one + other for one, other in zip(first["trained"], second["trained"], strict=True)]
    epoch = len(trained) // 2
    for part in (trained[:epoch], trained[epoch:]):  # each document once an epoch
        assert sorted(ids for step in part for ids in step) == sorted(row["input_ids"] for row in rows)
    plain, args = tiny_model(), arguments(tmp_path, **{k: v for k, v in settings.items() if not k.startswith("max_")})
    losses = plain_losses(plain, named(rows, trained), args)
    assert np.allclose(first["losses"], losses, rtol=1e-5, atol=1e-6)
    for name, weight in plain.state_dict().items():
        for one in (first, second):
            # AdamW divides by roots of squared gradients, some of which are 0 but for rounding
            assert (one["weights"][name] - weight).abs().max() < 1e-10
    rows = documents(held_out, seed=1)
    for one in (first, second):
        assert np.isclose(one["evaluated"]["eval_loss"], mean_loss(plain, rows), rtol=1e-5)


@pytest.mark.parametrize("case", [case for case in CASES if case != "in slices"])
def test_metrics_are_those_of_one_rank(tmp_path, found, case):
    args = arguments(tmp_path)
    trainer = SlimPackTrainer(tiny_model(), args, eval_dataset=documents(CASES[case][1], seed=1), compute_metrics=checksum)
    expected = trainer.evaluate()
    assert expected["eval_rows"] == len(CASES[case][1])
    for one in found["Trainer", case]:
        assert {name: one["evaluated"][name] for name in ("eval_rows", "eval_targets")} == {
            name: expected[name] for name in ("eval_rows", "eval_targets")}


@pytest.mark.parametrize("case", RESUMED)
@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_has_the_bits_of_one_that_was_not_stopped(found, kind, case):
    for one in found[kind, case]:
        whole, again = one["resumed"]
        assert all(torch.equal(whole[name], again[name]) for name in whole)
