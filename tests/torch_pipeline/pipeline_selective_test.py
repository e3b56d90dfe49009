"""Graphs that lack elementwise results: exact, smaller, and the same bits."""

import collections
import random
from types import SimpleNamespace

import pytest
import torch
from families import config_of, model_of
from slimpack.torch.pipeline import selective
from slimpack.torch.pipeline.local import LocalEngine, stages_of
from slimpack.torch.pipeline.packs import stage_plan
from slimpack.torch.pipeline.random_plan import random_plan
from slimpack.torch.pipeline.selective import _keeps
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import SAC_IGNORED_OPS, CheckpointPolicy
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


class AsksBefore(TorchDispatchMode):
    """A selective checkpoint as torch 2.10 and 2.11 have it: what is kept is asked before an operation
    runs, and again when backward runs it."""

    def __init__(self, choice, storage, is_recompute):
        super().__init__()
        self.choice, self.storage, self.is_recompute = choice, storage, is_recompute

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in SAC_IGNORED_OPS:
            return func(*args, **kwargs)
        context = SimpleNamespace(is_recompute=self.is_recompute)
        keeps = self.choice(context, func, *args, **kwargs) == CheckpointPolicy.MUST_SAVE
        if keeps and self.is_recompute:
            return tree_map(lambda wrapped: wrapped.val, self.storage[func].pop(0))
        result = func(*args, **kwargs)
        if keeps:
            self.storage[func].append(tree_map(lambda x: SimpleNamespace(val=x.detach()), result))
        return result


def asking_before(choice, allow_cache_entry_mutation):
    storage = collections.defaultdict(list)
    return AsksBefore(choice, storage, False), AsksBefore(choice, storage, True)


@pytest.mark.parametrize(("family", "experts"), [("llama", None), ("gpt_oss", "batched_mm")])
def test_releases_that_ask_before_an_operation_runs_have_the_same_bits(monkeypatch, family, experts):
    expected = gradients("nothing", torch.float32, family, experts)
    monkeypatch.setattr(selective, "create_selective_checkpoint_contexts", asking_before)
    found = gradients("elementwise", torch.float32, family, experts)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


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
    # There are two heads with 8 numbers each: 100 queries and keys, then 5.
    for tokens, kept in ((100, False), (5, True)):
        query_HTD = torch.zeros(2, tokens, 8)
        assert _keeps("aten::bmm", (query_HTD, query_HTD.mT)) == kept
        assert _keeps("aten::bmm", (query_HTD @ query_HTD.mT, query_HTD))
