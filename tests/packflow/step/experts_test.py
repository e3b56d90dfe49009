"""Gradients of layers with experts equal those of Hugging Face with autograd: cut, pipelined, in grids of
ranks, in zones, with split backwards, whatever is computed again; so do weights after optimizer
steps."""

import random

import pytest
import torch
from driver import run_driver
from gradients_test import (GRIDS, RECOMPUTE, assert_bf16_gradients_point_the_same_way,
                            assert_fp32_gradients_equal_the_unpatched_model,
                            assert_fp64_gradients_equal_autograd,
                            assert_weights_after_three_adamw_steps_equal_torch, random_case, random_grid,
                            with_stages_per_rank, with_zones)
from hugging_face import make_model

FAMILIES = ["mixtral", "qwen3_moe", "olmoe"]
WITHOUT_TP = [grid for grid in GRIDS if grid[2] == 1]


def with_experts(case, seed):
    """The case in a family with experts: one to many, of which a token chooses one to all. The family
    follows from the seed."""
    _, sizes, sequences, plan = case
    r = random.Random(seed)
    family = FAMILIES[seed % len(FAMILIES)]
    for of_others in ("attention_bias", "mlp_bias", "sliding_window"):
        sizes.pop(of_others, None)
    experts = r.choice([1, 2, 5, 8, 16])
    sizes["num_local_experts" if family == "mixtral" else "num_experts"] = experts
    sizes["num_experts_per_tok"] = r.randint(1, min(experts, 4))
    if family == "qwen3_moe":
        sizes["moe_intermediate_size"] = r.choice([8, 24, 40])
    if family != "mixtral":
        sizes.update(norm_topk_prob=r.random() < 0.5, attention_bias=r.random() < 0.5)
    if family == "olmoe":
        # It has no free head_dim, and its padding token's embedding would have no gradient.
        sizes.update(hidden_size=sizes["num_attention_heads"] * sizes.pop("head_dim"), pad_token_id=None)
    return family, sizes, sequences, plan


@pytest.mark.parametrize("seed", range(2000, 2018))
def test_fp64_gradients_of_experts_equal_autograd_on_each_document(seed, tmp_path):
    assert_fp64_gradients_equal_autograd(with_experts(random_case(seed), seed), seed, tmp_path)


@pytest.mark.parametrize("recompute", RECOMPUTE)
@pytest.mark.parametrize("seed", range(2100, 2103))
def test_fp64_gradients_of_experts_equal_autograd_whatever_is_computed_again(seed, recompute, tmp_path):
    family, sizes, sequences, plan = with_experts(random_case(seed), seed)
    plan.update(recompute=[recompute] * 4, split_from=seed % 2)
    assert_fp64_gradients_equal_autograd((family, sizes, sequences, plan), seed, tmp_path)


@pytest.mark.parametrize("seed", range(2200, 2212))
def test_fp64_gradients_of_experts_on_grids_equal_autograd(seed, tmp_path):
    assert_fp64_gradients_equal_autograd(with_experts(random_grid(seed, WITHOUT_TP), seed), seed, tmp_path)


@pytest.mark.parametrize("seed", range(2300, 2309))
def test_fp64_gradients_of_experts_in_zones_equal_autograd(seed, tmp_path):
    case = random_grid(seed, [grid for grid in WITHOUT_TP if grid[1] > 1])
    with_zones(case[-1], seed)
    assert_fp64_gradients_equal_autograd(with_experts(case, seed), seed, tmp_path)


@pytest.mark.parametrize("seed", range(2400, 2409))
def test_fp64_gradients_of_experts_beside_a_spread_vocabulary_equal_autograd(seed, tmp_path):
    case = random_grid(seed, [grid for grid in WITHOUT_TP if grid[0] > 1])
    case = with_stages_per_rank(with_experts(case, seed), seed % 2 + 1)
    case[-1]["spread_vocabulary"] = True
    assert_fp64_gradients_equal_autograd(case, seed, tmp_path)


@pytest.mark.parametrize("window", [1, 7, 60])
@pytest.mark.parametrize("seed", [2502, 2503, 2506])  # of Mixtral and Qwen3-MoE
def test_fp64_gradients_of_experts_within_windows_equal_autograd(seed, window, tmp_path):
    family, sizes, sequences, plan = with_experts(random_grid(seed, WITHOUT_TP), seed)
    sizes["sliding_window"] = window
    if family == "qwen3_moe":
        sizes["use_sliding_window"] = True
    assert_fp64_gradients_equal_autograd((family, sizes, sequences, plan), seed, tmp_path)


@pytest.mark.parametrize("dtype", ["fp64", "fp32", "bf16"])
@pytest.mark.parametrize("seed", range(2600, 2603))
def test_split_backwards_of_experts_give_the_bits_of_whole_ones(seed, dtype, tmp_path):
    family, sizes, sequences, plan = with_experts(random_case(seed), seed)
    model = make_model(family, seed, torch.float32, **sizes)
    whole = run_driver(tmp_path / "whole", model, sequences, plan, dtype)
    split = run_driver(tmp_path / "split", model, sequences, dict(plan, split_from=0), dtype)
    for name, tensor in whole.items():
        assert torch.equal(split[name], tensor), name


@pytest.mark.parametrize("seed", range(2700, 2706))
def test_fp32_gradients_of_experts_equal_the_unpatched_model(seed, tmp_path):
    assert_fp32_gradients_equal_the_unpatched_model(with_experts(random_case(seed), seed), seed, tmp_path)


@pytest.mark.parametrize("seed", range(2800, 2803))
def test_bf16_gradients_of_experts_point_the_same_way(seed, tmp_path):
    assert_bf16_gradients_point_the_same_way(with_experts(random_case(seed), seed), seed, tmp_path)


@pytest.mark.parametrize("seed", range(2900, 2903))
def test_weights_of_experts_after_three_adamw_steps_equal_torch_in_fp64(seed, tmp_path):
    assert_weights_after_three_adamw_steps_equal_torch(with_experts(random_case(seed), seed), seed, tmp_path)
