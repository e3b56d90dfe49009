"""Frequencies of rotary positions that depend on each document's length."""

import random

import pytest
import torch
from families import config_of, model_of
from slimpack.torch.pipeline.comparison import Fp64Casts, largest_difference, plain_step
from slimpack.torch.pipeline.random_plan import random_plan
from trial import BOUND, run_locally

LONGROPE = dict(rope_type="longrope", rope_theta=1e4, short_factor=[1.0, 1.1, 1.2, 1.3],
                long_factor=[2.0, 3.0, 4.0, 5.0], original_max_position_embeddings=32, factor=8.0)


@pytest.mark.parametrize("lengths", [[20, 100, 31, 33, 1], [100, 90], [12, 9]])
def test_short_and_long_documents_have_their_own_frequencies(lengths):
    model = model_of(config_of("phi3", rope_parameters=LONGROPE), 1)
    documents = [torch.arange(n) % 90 + 3 for n in lengths]
    plan = random_plan(lengths, [0, 1, 4], random.Random(2))
    engine, (loss, _) = run_locally(model, plan, documents)
    with Fp64Casts():
        assert loss == pytest.approx(plain_step(model, documents), rel=BOUND)
    difference, name = largest_difference(model, engine.stages)
    assert difference <= BOUND, f"{name}: {difference:.2e}"
