"""The comparison with plain training sees what could be forgotten: a runtime without it fails."""

import random

import pytest
import torch
from families import config_of, model_of
from pipeline_worker import arrays_of, engine_of
from ranks import run
from slimpack.torch.pipeline import attention, token_rows
from slimpack.torch.pipeline.comparison import (
    Fp64Casts,
    largest_difference,
    largest_of,
    plain_step,
)
from slimpack.torch.pipeline.random_plan import random_plan
from trial import BOUND, run_locally, tensors_of

FAMILY, SEED = "mistral", 1
LENGTHS = [90, 3, 70]
FORGOTTEN = {  # what it does instead
    "to add": (token_rows.TokenRows, "add", lambda *_: None),
    "what was added": (token_rows.TokenRows, "added_to",
                       lambda self, key, sequence, begin, rows: rows),
    "windows": (attention.MaskRule, "sees",
                lambda self, queries, keys: keys[None] <= queries[:, None]),
}


def cut_step():
    """(plan, documents): forward and backward cuts lie inside every long document."""
    generator = torch.Generator().manual_seed(1)
    documents = [torch.randint(3, 97, (n,), generator=generator) for n in LENGTHS]
    plan = random_plan(LENGTHS, [0, 2, 4], random.Random(0))
    assert any(int(pack.begin.max()) > 16 for pack in plan.replicas[0].backward)
    return plan, documents


def trained():
    """The model after plain training."""
    model = model_of(config_of(FAMILY), SEED)
    with Fp64Casts():
        plain_step(model, cut_step()[1])
    return model


def difference():
    engine, _ = run_locally(model_of(config_of(FAMILY), SEED), *cut_step())
    return largest_difference(trained(), engine.stages)[0]


def gradients_of_rank(forgotten):
    """On each rank of a job: its gradients by name, when it forgets something."""
    if forgotten:
        setattr(*FORGOTTEN[forgotten])
    plan, documents = cut_step()
    engine = engine_of(FAMILY, SEED, plan)
    with Fp64Casts():
        engine.step(plan, documents)
    return arrays_of(engine)


def difference_on_processes(forgotten):
    return largest_of(trained(), tensors_of(run(2, gradients_of_rank, forgotten)))[0]


def test_nothing_is_forgotten():
    assert difference() <= BOUND
    assert difference_on_processes(None) <= BOUND


@pytest.mark.parametrize("forgotten", FORGOTTEN)
def test_a_runtime_that_forgets_prefix_gradients_or_windows_fails(monkeypatch, forgotten):
    monkeypatch.setattr(*FORGOTTEN[forgotten])
    assert difference() > 0.01


@pytest.mark.parametrize("forgotten", ["to add", "windows"])
def test_processes_that_forget_prefix_gradients_or_windows_fail(forgotten):
    assert difference_on_processes(forgotten) > 0.01


def test_a_runtime_that_keeps_too_few_keys_of_a_window_fails(monkeypatch):
    real = attention.Reach.__init__
    monkeypatch.setattr(attention.Reach, "__init__",
                        lambda self, window, known: real(self, window - 1, known))
    assert difference() > 0.001
