"""Sliced, pipelined steps have the gradients of plain training, one document at a time, in fp64.

`make soak` tries every family on processes with every number of stages and every kind of cuts;
other runs try some whose layers differ most.
"""

import itertools
import os
import random

import pipeline_worker
import pytest
from families import FAMILIES, config_of, model_of
from ranks import Ranks
from slimpack.torch.pipeline.comparison import Fp64Casts, largest_of, plain_step
from slimpack.torch.pipeline.random_plan import KINDS
from trial import (
    BOUND,
    STAGES,
    assert_equals_plain_training,
    assert_model_equals_plain_training,
    random_case,
    tensors_of,
)

RANKS = 4
CASES = [
    ("llama", 2, "symmetric"),
    ("gemma2", 4, "sliced"),  # windows, soft-capping, a tied embedding
    ("gpt_oss", 2, "sliced"),  # sinks, experts
    ("deepseek_v3", 1, "sliced"),  # latent keys
    ("gpt2", 4, "packed"),  # learned positions, biases
    ("llama4_text", 2, "sliced"),  # chunks that only the mask knows
    ("diffllama", 1, "symmetric"),  # attention that runs twice a layer
]
if os.environ.get("SLIMPACK_FAMILIES") == "all":
    CASES = list(itertools.product(FAMILIES, STAGES, KINDS))
NUMBERED = [(*case, number) for number, case in enumerate(CASES)]  # the number is the seed
NAMES = [f"{family}-pp{stages}-{kind}-seed{number}" for family, stages, kind, number in NUMBERED]


@pytest.fixture(scope="module", name="ranks")
def fixture_ranks():
    with Ranks(RANKS) as ranks:
        yield ranks


@pytest.mark.parametrize(("family", "stages", "kind", "number"), NUMBERED, ids=NAMES)
def test_gradients_equal_plain_training(ranks, record_property, family, stages, kind, number):
    settings = dict(stages=stages, replicas=RANKS // stages, kind=kind)
    losses, gradients = zip(*ranks.run(pipeline_worker.step, family, number, settings), strict=True)
    _, documents = random_case(number, **settings)
    model = model_of(config_of(family), number)
    with Fp64Casts():
        expected = plain_step(model, documents)
    assert losses == pytest.approx([expected] * RANKS, rel=BOUND)
    difference, name = largest_of(model, tensors_of(gradients))
    record_property("difference", difference)
    assert difference <= BOUND, name


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
