"""The comparison with plain training sees what could be forgotten: a runtime without it fails."""

import random

import pytest
import torch
from families import config_of, model_of
from slimpack.torch.pipeline import attention, token_rows
from slimpack.torch.pipeline.comparison import Fp64Casts, largest_difference, plain_step
from slimpack.torch.pipeline.random_plan import random_plan
from trial import BOUND, run_locally

LENGTHS = [90, 3, 70]


def difference(family):
    """Of a step whose forward and backward cuts lie inside every long document."""
    model = model_of(config_of(family), seed=1)
    generator = torch.Generator().manual_seed(1)
    documents = [torch.randint(3, 97, (n,), generator=generator) for n in LENGTHS]
    plan = random_plan(LENGTHS, [0, 2, 4], random.Random(0))
    assert any(int(pack.begin.max()) > 16 for pack in plan.replicas[0].backward)
    engine, _ = run_locally(model, plan, documents)
    with Fp64Casts():
        plain_step(model, documents)
    return largest_difference(model, engine.stages)[0]


def test_nothing_is_forgotten():
    assert difference("mistral") <= BOUND


@pytest.mark.parametrize("forgotten", ["add", "added_to"])
def test_a_runtime_that_forgets_prefix_gradients_fails(monkeypatch, forgotten):
    instead = {"add": lambda *_: None, "added_to": lambda self, key, sequence, begin, rows: rows}
    monkeypatch.setattr(token_rows.TokenRows, forgotten, instead[forgotten])
    assert difference("mistral") > 0.01


def test_a_runtime_that_forgets_windows_fails(monkeypatch):
    def causal(self, queries, keys):
        return keys[None] <= queries[:, None]

    monkeypatch.setattr(attention.MaskRule, "sees", causal)
    assert difference("mistral") > 0.01


def test_a_runtime_that_keeps_too_few_keys_of_a_window_fails(monkeypatch):
    real = attention.Reach.__init__
    monkeypatch.setattr(attention.Reach, "__init__",
                        lambda self, window, known: real(self, window - 1, known))
    assert difference("mistral") > 0.001
