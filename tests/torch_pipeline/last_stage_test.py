"""The last stage leaves work out of forward passes: backward computes it, and nobody waits for
it."""

import collections
import random

import pytest
import torch
from families import config_of, model_of
from slimpack.torch.pipeline.comparison import Fp64Casts
from slimpack.torch.pipeline.local import LocalEngine, stages_of
from slimpack.torch.pipeline.random_plan import random_plan

LAYER_BEGIN = [0, 2, 4]
LENGTHS = [1, 30, 50, 7]


def forward_calls(plan):
    """By (layer, module) how often passes without a graph called it."""
    stages = stages_of(lambda: model_of(config_of("llama"), 3), plan.layer_begin)
    calls = collections.Counter()

    def note(key):
        return lambda *_: None if torch.is_grad_enabled() else calls.update([key])

    for stage in stages:
        for number, layer in zip(stage.place.layers, stage.own_layers(), strict=True):
            for name in ("self_attn.v_proj", "self_attn.o_proj", "mlp"):
                layer.get_submodule(name).register_forward_hook(note((number, name)))
    with Fp64Casts():
        LocalEngine(stages).step(plan, [torch.arange(n) % 90 + 3 for n in LENGTHS])
    return calls


def packs_with_keys_for_others(plan):
    """Forward packs with a token that some slice has in its prefix."""
    replica = plan.replicas[0]
    begins = collections.defaultdict(set)
    for pack in [*replica.forward, *replica.backward]:
        for sequence, begin in zip(pack.sequences, pack.begin, strict=True):
            begins[sequence].add(begin)
    return [pack for pack in replica.forward
            if any(max(begins[sequence]) > begin
                   for sequence, begin in zip(pack.sequences, pack.begin, strict=True))]


@pytest.mark.parametrize("seed", range(3))
def test_the_last_layer_computes_keys_and_values_alone(seed):
    plan = random_plan(LENGTHS, LAYER_BEGIN, random.Random(seed), kind="sliced")
    calls, packs = forward_calls(plan), len(plan.replicas[0].forward)
    some = len(packs_with_keys_for_others(plan))
    assert 0 < some <= packs
    for name in ("self_attn.v_proj", "self_attn.o_proj", "mlp"):
        assert [calls[layer, name] for layer in (0, 1)] == [packs, packs]
        assert calls[2, name] == some  # whole documents are computed once, in backward
    assert calls[3, "self_attn.v_proj"] == some
    assert calls[3, "self_attn.o_proj"] == calls[3, "mlp"] == 0


def test_the_last_stage_computes_nothing_of_whole_documents():
    plan = random_plan(LENGTHS, LAYER_BEGIN, random.Random(1), kind="packed")
    calls = forward_calls(plan)
    assert {layer for layer, _ in calls} == {0, 1}
