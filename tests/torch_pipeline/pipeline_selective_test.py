"""Graphs that lack elementwise results: exact, smaller, and the same bits."""

import random

import pytest
import torch
from families import config_of, model_of
from slimpack.torch.pipeline.local import LocalEngine, stages_of
from slimpack.torch.pipeline.packs import stage_plan
from slimpack.torch.pipeline.random_plan import random_plan
from slimpack.torch.pipeline.selective import _keeps
from trial import (
    assert_equals_plain_training,
    assert_model_equals_plain_training,
    random_case,
)

EVERY_OTHER = ["elementwise", "nothing"] * 2


# Casts to fp32 in norms; soft-capping; top-k experts; sinks; latent keys, experts behind a layer
# without.
@pytest.mark.parametrize("family", ["llama", "gemma2", "qwen3_moe", "gpt_oss", "deepseek_v3"])
@pytest.mark.parametrize("recompute", ["elementwise", EVERY_OTHER], ids=["all", "every other"])
def test_gradients_equal_plain_training(family, recompute):
    assert_equals_plain_training(family, 3, kind="symmetric", recompute=recompute, stages=2)


def gradients(recompute, dtype, family="llama", experts=None):
    def make_model():
        model = model_of(config_of(family), 1, dtype)
        if experts:
            model.set_experts_implementation(experts)
        return model

    plan, documents = random_case(7, kind="symmetric", recompute=recompute, stages=2)
    engine = LocalEngine(stages_of(make_model, plan.layer_begin))
    engine.step(plan, documents)
    return {name: parameter.grad for stage in engine.stages
            for name, parameter in stage.model.named_parameters() if parameter.grad is not None}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_have_the_bits_of_those_through_whole_graphs(dtype):
    expected = gradients("nothing", dtype)
    for recompute in ("elementwise", EVERY_OTHER):
        found = gradients(recompute, dtype)
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("experts", ["grouped_mm", "batched_mm"])
def test_biases_that_are_added_to_products_in_place_are_added_once(experts):
    expected = gradients("nothing", torch.float32, "gpt_oss", experts)
    found = gradients("elementwise", torch.float32, "gpt_oss", experts)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_layers_without_gradients_leave_no_keys_behind():
    model = model_of(config_of("llama"), 1)
    for parameter in [*model.model.embed_tokens.parameters(), *model.model.layers[0].parameters()]:
        parameter.requires_grad_(False)
    # A step asserts that its stores are empty at its end.
    assert_model_equals_plain_training(model, 4, kind="symmetric", recompute="elementwise",
                                       stages=2)


@pytest.mark.parametrize(("recompute", "keeps", "elementwise"), [
    ("nothing", True, set()), ("elementwise", True, {0, 1}), (EVERY_OTHER, True, {0}),
    (["full", "elementwise", "nothing", "nothing"], False, set())], ids=str)
def test_layers_of_a_stage_keep_different_graphs_unless_one_keeps_none(recompute, keeps,
                                                                       elementwise):
    plan = random_plan([9, 5], [0, 2, 4], random.Random(1), kind="symmetric", recompute=recompute)
    first = stage_plan(plan, 0, 0)
    assert len(first.kept) == (len(first.backward) if keeps else 0)
    assert first.elementwise == elementwise


def test_scores_of_long_slices_are_not_kept():
    # Of two heads with 8 numbers each: 100 queries and keys, then 5.
    for tokens, kept in ((100, False), (5, True)):
        query_HTD = torch.zeros(2, tokens, 8)
        scores_HTT = query_HTD @ query_HTD.mT
        assert _keeps("aten::bmm", (query_HTD, query_HTD.mT), scores_HTT) == kept
        assert _keeps("aten::bmm", (scores_HTT, query_HTD), scores_HTT @ query_HTD)
