"""Sliced, pipelined steps have the gradients of plain training, one document at a time, in fp64.

`make soak` tries every family; other runs try some whose layers differ most.
"""

import os
import random

import pytest
from families import FAMILIES, NAMED, config_of, model_of
from slimpack.torch.pipeline.random_plan import KINDS
from trial import STAGES, assert_equals_plain_training, assert_model_equals_plain_training

# Plain attention; windows with soft-capping and a tied embedding; sinks; latent keys; learned
# positions and biases; chunks that only the mask knows; attention that runs twice a layer.
CASES = [(family, len(family), None) for family in
         ("llama", "gemma2", "gpt_oss", "deepseek_v3", "gpt2", "llama4_text", "diffllama")]
if os.environ.get("SLIMPACK_FAMILIES") == "all":
    CASES = [(family, stages, stages) for family in FAMILIES for stages in STAGES]
    CASES += [(family, seed, None) for family in NAMED for seed in range(10, 20)]


@pytest.mark.parametrize(("family", "number", "stages"), CASES)
def test_gradients_equal_plain_training(family, number, stages):
    assert_equals_plain_training(family, number, stages=stages)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("recompute", ["full", "nothing", "elementwise"])
@pytest.mark.parametrize("seed", range(100, 103))
def test_gradients_equal_plain_training_however_documents_are_cut(seed, kind, recompute):
    assert_equals_plain_training("mistral", seed, kind=kind, recompute=recompute, stages=2)


@pytest.mark.parametrize("seed", range(300, 304))
def test_gradients_of_what_is_not_frozen_equal_plain_training(seed):
    rng = random.Random(seed)
    model = model_of(config_of(rng.choice(["llama", "gemma2"])), seed)
    parameters = list(model.parameters())
    for parameter in rng.sample(parameters, rng.choice([3, len(parameters) - 2])):
        parameter.requires_grad_(False)
    assert_model_equals_plain_training(model, seed)
