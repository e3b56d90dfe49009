"""Gradients of steps in which not all tokens are targets equal those of Hugging Face with labels of -100,
however documents are cut, on pipeline stages, replicas, tensor-parallel ranks and a spread vocabulary."""

import random

import pytest
import torch
from driver import run_driver
from gradients_test import GRIDS, assert_same_gradients, random_case, random_grid, with_stages_per_rank, with_zones
from hugging_face import make_model, masked_loss_and_backward, use_fp64_casts


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


def assert_masked_gradients_equal_autograd(case, seed, tmp_path):
    family, sizes, sequences, plan = case
    masks = random_masks(seed, sequences)
    model = use_fp64_casts(make_model(family, seed, torch.float64, **sizes))
    loss = masked_loss_and_backward(model, sequences, masks)
    out = run_driver(tmp_path, model, sequences, dict(plan, masks=masks), "fp64")
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
