"""Models in bf16 that keep routers and sinks in fp32: messages and shares of replicas."""

import copy
import random

import mixed_dtype_ranks
import numpy as np
import pytest
import torch
from families import config_of, model_of
from ranks import run
from replicated_ranks import REPLICATION
from slimpack import InvalidInput
from slimpack.torch.pipeline import LocalEngine
from slimpack.torch.pipeline.comparison import plain_step
from slimpack.torch.pipeline.local import stages_of
from slimpack.torch.pipeline.random_plan import random_plan
from transformers import AutoModelForCausalLM

# The first parameter of flint's second stage is its sinks, ernie's routers are in fp32.
FAMILIES = ["flint", "ernie4_5_moe"]
RANKS = mixed_dtype_ranks.STAGES * mixed_dtype_ranks.REPLICAS


@pytest.fixture(name="found", scope="module", params=FAMILIES)
def fixture_found(request, tmp_path_factory):
    """(folder, by whether replicas share weights out what the ranks Found)."""
    folder = tmp_path_factory.mktemp(request.param)
    model_of(config_of(request.param), 1, torch.float32).save_pretrained(folder)
    return folder, {replication: run(RANKS, mixed_dtype_ranks.step, folder, replication)
                    for replication in REPLICATION}


def relative(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def as_one(gradients, names):
    return np.concatenate([gradients[name].ravel() for name in sorted(names)])


def test_stages_exchange_the_dtype_of_hidden_states(found):
    # Against plain training of the same bf16 weights, as far off as bf16 is from fp32.
    folder, of_ranks = found
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16,
                                                 attn_implementation="eager").train()
    exact = copy.deepcopy(model).float()
    documents = mixed_dtype_ranks.plan_and_documents()[1]
    losses = [plain_step(of, documents) for of in (model, exact)]
    plain, reference = ({name: p.grad.float().numpy() for name, p in of.named_parameters()
                         if p.grad is not None} for of in (model, exact))
    ours = {name: grad for of_rank in of_ranks["whole"] for name, grad in of_rank.gradients.items()}
    assert plain.keys() <= ours.keys()  # replicas sum gradients that nobody has, too
    assert of_ranks["whole"][0].loss == pytest.approx(losses[1], rel=0.01)
    noise = relative(as_one(plain, plain), as_one(reference, plain))
    assert relative(as_one(ours, plain), as_one(reference, plain)) <= 1.5 * noise


@pytest.mark.parametrize("replication", ["sharded", "resharded"])
def test_replicas_share_out_what_has_the_main_dtype_and_sum_the_rest(found, replication):
    whole, sharded = found[1]["whole"], found[1][replication]
    assert any(of_rank.wide for of_rank in whole)
    for expected, of_rank in zip(whole, sharded, strict=True):
        assert of_rank.loss == expected.loss and of_rank.wide == expected.wide
        # Sums of two replicas in bf16 differ by their order at most.
        assert of_rank.norm == pytest.approx(expected.norm, rel=1e-3)
        assert of_rank.gradients.keys() == expected.gradients.keys()
        for name, gradient in expected.gradients.items():
            if np.linalg.norm(gradient):
                assert relative(of_rank.gradients[name], gradient) < 0.01, name


@pytest.mark.parametrize("replication", REPLICATION)
def test_replicas_have_the_same_weights_after_an_update(found, replication):
    first, second = found[1][replication][:2], found[1][replication][2:]
    for one, other in zip(first, second, strict=True):
        assert one.weights.keys() == other.weights.keys()
        for name, weight in one.weights.items():
            assert np.array_equal(weight, other.weights[name]), name


@pytest.mark.parametrize(("settings", "remedy"), [
    ({}, "give the model one dtype, with model.to"),
    (dict(residual_in_fp32=True), "make the model with config.residual_in_fp32 = False"),
])
def test_layers_that_widen_hidden_states_are_refused_by_name(settings, remedy):
    def widening():
        model = model_of(config_of("llama"), 1, torch.bfloat16)
        model.config.update(settings)
        model.model.layers[1].register_forward_hook(lambda _, args, output: output.float())
        return model

    plan = random_plan([5, 9], [0, 2, 4], random.Random(1))
    engine = LocalEngine(stages_of(widening, plan.layer_begin))
    reason = r"hidden states of LlamaForCausalLM are torch.float32, most .* torch.bfloat16; " + remedy
    with pytest.raises(InvalidInput, match=reason):
        engine.step(plan, [torch.full((n,), 7) for n in (5, 9)])
