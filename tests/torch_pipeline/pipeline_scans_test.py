"""Scans take the states that slices enter with, and packages' kernels run on GPUs alone."""

import copy
import random
import sys
import types
from types import SimpleNamespace

import pytest
import torch
from families import config_of, model_of
from slimpack import InvalidInput
from slimpack.torch.pipeline import LocalEngine, Stage
from slimpack.torch.pipeline.comparison import Fp64Casts
from slimpack.torch.pipeline.local import stages_of
from slimpack.torch.pipeline.random_plan import random_plan
from slimpack.torch.pipeline.scans import run_kernels_on_gpus_alone, running_on, wrap_scans
from transformers.integrations.hub_kernels import use_kernel_func_from_hub_with_fallback
from transformers.models.mamba import modeling_mamba

CHANNELS, STATE, TOKENS, CUT = 3, 4, 9, 5


def inputs():
    """Returns arguments of Mamba-1's scan, with gradients: x, dt, A, B, C, D, z."""
    torch.manual_seed(1)
    x, dt, z = (torch.randn(1, CHANNELS, TOKENS, dtype=torch.float64) for _ in range(3))
    A = -torch.rand(CHANNELS, STATE, dtype=torch.float64).exp()
    B, C = (torch.randn(1, STATE, TOKENS, dtype=torch.float64) for _ in range(2))
    tensors = x, dt, A, B, C, torch.randn(CHANNELS, dtype=torch.float64), z
    return [tensor.requires_grad_() for tensor in tensors]


def scanned(tensors, first, end, segment=None):
    x, dt, A, B, C, D, z = (t[..., first:end] if t.shape[-1] == TOKENS else t for t in tensors)
    with running_on(segment), Fp64Casts():
        return modeling_mamba.mamba_selective_scan(x, dt, A, B, C, D, z=z, delta_softplus=True,
                                                   return_last_state=True)


def gradients(tensors, output, state):
    (output.square().sum() + state.square().sum()).backward()
    return [tensor.grad for tensor in tensors]


def test_mamba_1_goes_on_from_a_state_with_exact_gradients():
    wrap_scans(modeling_mamba.MambaMixer(config_of("mamba"), 0))
    whole, cut = inputs(), inputs()
    expected = scanned(whole, 0, TOKENS)
    before, state = scanned(cut, 0, CUT, SimpleNamespace(withheld=None, leaves=True))
    after, last = scanned(cut, CUT, TOKENS, SimpleNamespace(withheld=state, leaves=True))
    found = torch.cat([before, after], 2), last
    for one, other in zip((*expected, *gradients(whole, *expected)),
                          (*found, *gradients(cut, *found)), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-12, atol=1e-12)


def test_kernels_of_packages_run_on_gpus_alone(monkeypatch):
    package, family = types.ModuleType("kernels_stand_in"), types.ModuleType("family_stand_in")
    monkeypatch.setitem(sys.modules, "kernels_stand_in", package)
    monkeypatch.setitem(sys.modules, "family_stand_in", family)

    def no_gpu(x, initial_state=None):
        raise RuntimeError("no GPU")

    def torchs_own(x, initial_state=None, **_):
        return x + 1

    package.scan = no_gpu
    family.scan = use_kernel_func_from_hub_with_fallback("scan", "kernels_stand_in")(torchs_own)
    ones = torch.ones(2)
    with pytest.raises(RuntimeError, match="no GPU"):
        family.scan(ones)
    for _ in range(2):
        run_kernels_on_gpus_alone(type("Model", (), {"__module__": "family_stand_in"}))
        assert torch.equal(family.scan(ones, unknown_to_torchs_own=1), ones + 1)


def test_transformers_own_checkpoints_are_refused_since_they_take_the_cache_away():
    reason = r"checkpointing is on, .*; call model.gradient_checkpointing_disable"
    model = model_of(config_of("lfm2"), 1)
    plan = random_plan([5], [0, 2, 4], random.Random(1))
    engine = LocalEngine(stages_of(lambda: copy.deepcopy(model), plan.layer_begin))
    engine.stages[0].model.gradient_checkpointing_enable()
    with pytest.raises(InvalidInput, match=reason):
        engine.step(plan, [torch.arange(5)])
    model.gradient_checkpointing_enable()
    with pytest.raises(InvalidInput, match=reason):
        Stage.from_model(model, plan, 0, check=False)
