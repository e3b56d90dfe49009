"""Gradients of steps in which tokens are no targets, count more or less, or count by document equal those
of Hugging Face, however documents are cut, on pipeline stages, replicas, tensor-parallel ranks and a spread
vocabulary."""

import random

import pytest
import torch
from driver import run_driver
from gradients_test import GRIDS, assert_same_gradients, random_case, random_grid, with_stages_per_rank, with_zones
from hugging_face import make_model, use_fp64_casts, weighted_loss_and_backward


def random_masks(seed, sequences):
    """By token 1 = a target. A document may have none, or its last token alone; one has some."""
    r = random.Random(seed)
    masks = []
    for tokens in sequences:
        share = r.choice([0, 0.1, 0.5, 0.9, 1])
        masks.append([0, *(int(r.random() < share) for _ in tokens[1:])])
    longest = max(range(len(sequences)), key=lambda s: len(sequences[s]))
    masks[longest][-1] = 1
    return masks


def random_weights(seed, masks):
    """By token; 0 = no target."""
    r = random.Random(seed)
    return [[counts * r.choice([0.01, 0.5, 1, 3.25]) for counts in mask] for mask in masks]


def assert_masked_gradients_equal_autograd(case, seed, tmp_path):
    family, sizes, sequences, plan = case
    masks = random_masks(seed, sequences)
    mean = ["token", "document"][seed % 2]
    weighted = seed % 4 > 1
    weights = random_weights(seed, masks) if weighted else masks
    model = use_fp64_casts(make_model(family, seed, torch.float64, **sizes))
    loss = weighted_loss_and_backward(model, sequences, weights, mean)
    step = dict(plan, masks=masks, loss=mean, **({"target_weights": weights} if weighted else {}))
    out = run_driver(tmp_path, model, sequences, step, "fp64")
    assert_same_gradients(out, model, loss, 1e-9)


def test_a_weight_of_another_token_is_noticed(tmp_path):
    family, sizes, sequences, plan = random_case(0)
    masks = random_masks(0, sequences)
    weights = random_weights(0, masks)
    longest = max(range(len(sequences)), key=lambda s: len(sequences[s]))
    first, second = [t for t, counts in enumerate(masks[longest]) if counts][:2]
    weights[longest][first], weights[longest][second] = 1, 2
    model = use_fp64_casts(make_model(family, 0, torch.float64, **sizes))
    loss = weighted_loss_and_backward(model, sequences, weights)
    weights[longest][first], weights[longest][second] = 2, 1
    out = run_driver(tmp_path, model, sequences, dict(plan, masks=masks, target_weights=weights), "fp64")
    with pytest.raises(AssertionError):
        assert_same_gradients(out, model, loss, 1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_masked_gradients_of_sliced_documents_equal_autograd(seed, tmp_path):
    assert_masked_gradients_equal_autograd(random_case(seed), seed, tmp_path)


@pytest.mark.parametrize("seed", range(500, 520))
def test_masked_gradients_on_any_grid_equal_autograd(seed, tmp_path):
    assert_masked_gradients_equal_autograd(random_grid(seed), seed, tmp_path)


@pytest.mark.parametrize("seed", range(1100, 1112))
def test_masked_gradients_of_a_spread_vocabulary_equal_autograd(seed, tmp_path):
    grid = random_grid(seed, [g for g in GRIDS if g[0] > 1])
    family, sizes, sequences, plan = with_stages_per_rank(grid, 1 + seed % 2)
    case = family, sizes, sequences, dict(plan, spread_vocabulary=True)
    assert_masked_gradients_equal_autograd(case, seed, tmp_path)


@pytest.mark.parametrize("seed", range(1300, 1312))
def test_masked_gradients_of_zones_equal_autograd(seed, tmp_path):
    grid = random_grid(seed, [g for g in GRIDS if g[1] > 1])
    with_zones(grid[-1], seed)
    assert_masked_gradients_equal_autograd(grid, seed, tmp_path)
