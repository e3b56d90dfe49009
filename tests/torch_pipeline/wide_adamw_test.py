"""AdamW in fp32 for models in bf16."""

import pytest
import torch
from slimpack.torch.pipeline import WideAdamW, wide_adamw
from torch import nn

SETTINGS = dict(lr=1e-4, weight_decay=0.1)


def parameters(dtype):
    torch.manual_seed(1)
    return [nn.Parameter(torch.randn(shape).to(torch.bfloat16).to(dtype))
            for shape in ((3, 4), (5,))]


def train(optimizer, of, steps):
    """Steps with the same gradients whatever the dtype of the parameters."""
    torch.manual_seed(2)
    for _ in range(steps):
        for parameter in of:
            parameter.grad = torch.randn(parameter.shape)
        optimizer.step()
        optimizer.zero_grad()


def test_bf16_weights_are_those_of_an_fp32_run_rounded():
    narrow, wide = parameters(torch.bfloat16), parameters(torch.float32)
    train(WideAdamW(narrow, **SETTINGS), narrow, 20)
    train(torch.optim.AdamW(wide, **SETTINGS), wide, 20)
    for a, b in zip(narrow, wide, strict=True):
        assert a.dtype == torch.bfloat16
        assert torch.equal(a, b.bfloat16())


def test_fp32_weights_have_the_bits_of_torchs_own():
    ours, theirs = parameters(torch.float32), parameters(torch.float32)
    train(WideAdamW(ours, **SETTINGS), ours, 5)
    train(torch.optim.AdamW(theirs, **SETTINGS), theirs, 5)
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a, b)


def test_small_updates_add_up():
    # Each step moves the weight by about 1e-4. bf16 numbers above 1 are 2^-7 apart.
    weight = nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
    optimizer = WideAdamW([weight], lr=1e-4, weight_decay=0.0)
    for _ in range(400):
        weight.grad = torch.full((1,), -1.0)
        optimizer.step()
    assert weight.item() == pytest.approx(1.04, abs=2 ** -7)
    assert set(optimizer.state[weight]) == {"weight", "step", "exp_avg", "exp_avg_sq"}


def test_gradients_are_summed_in_fp32():
    # 1 + 256 · 2^-9 = 1.5; in bf16 each 2^-9 would be lost beside 1.
    weight = nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
    (weight * 1.0).sum().backward()  # in bf16, from before
    WideAdamW([weight])
    for _ in range(256):
        (weight * 2 ** -9).sum().backward()
    assert weight.grad.dtype == torch.float32
    assert weight.grad.item() == 1.5


def test_a_parameter_without_a_gradient_stays():
    weights = parameters(torch.bfloat16)
    before = weights[1].clone()
    optimizer = WideAdamW(weights)
    weights[0].grad = torch.ones(3, 4)
    optimizer.step()
    assert torch.equal(weights[1], before) and weights[1] not in optimizer.state


def test_one_kernel_for_all_parameters_changes_no_bit_of_weights_in_bf16(monkeypatch):
    # The fused optimizer is that of a GPU, which processors have, too. A checkpoint of steps
    # without it goes on with it.
    plain, fused = parameters(torch.bfloat16), parameters(torch.bfloat16)
    optimizers = WideAdamW(plain, **SETTINGS), WideAdamW(fused, **SETTINGS)
    for optimizer, of in zip(optimizers, (plain, fused), strict=True):
        train(optimizer, of, 10)
    monkeypatch.setattr(wide_adamw, "_is_fused", lambda tensor: True)
    train(optimizers[1], fused, 10)
    monkeypatch.undo()
    train(optimizers[0], plain, 10)
    for a, b in zip(plain, fused, strict=True):
        assert torch.equal(a, b)
        of_plain, of_fused = optimizers[0].state[a], optimizers[1].state[b]
        assert of_fused["step"] == 20
        torch.testing.assert_close(of_fused["weight"], of_plain["weight"], rtol=1e-6, atol=0)


def late(tensor):
    """Stands in for a copy from a GPU: it has its numbers only for those who wait."""
    copy = torch.full_like(tensor.detach(), torch.nan)
    return copy, lambda: copy.copy_(tensor)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("on_its_way", [wide_adamw._on_its_way, late])
def test_an_offloaded_optimizer_has_the_same_bits(dtype, on_its_way, monkeypatch):
    monkeypatch.setattr(wide_adamw, "_on_its_way", on_its_way)
    usual, offloaded = parameters(dtype), parameters(dtype)
    optimizers = WideAdamW(usual, **SETTINGS), WideAdamW(offloaded, offload=True, **SETTINGS)
    for optimizer, of in zip(optimizers, (usual, offloaded), strict=True):
        train(optimizer, of, 8)
    for a, b in zip(usual, offloaded, strict=True):
        assert torch.equal(a, b)
        states = optimizers[0].state[a], optimizers[1].state[b]
        assert set(states[0]) == set(states[1])
        assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


@pytest.mark.parametrize("first", [False, True])
def test_states_load_with_and_without_offloading(first):
    usual, changed = parameters(torch.bfloat16), parameters(torch.bfloat16)
    optimizer = WideAdamW(usual, **SETTINGS)
    train(optimizer, usual, 4)
    train(optimizer, usual, 4)
    optimizer = WideAdamW(changed, offload=first, **SETTINGS)
    train(optimizer, changed, 4)
    other = WideAdamW(changed, offload=not first, **SETTINGS)
    other.state.update(optimizer.state)  # as checkpoints do
    train(other, changed, 4)
    assert all(torch.equal(a, b) for a, b in zip(usual, changed, strict=True))


def test_a_step_without_gradients_does_nothing_on_the_host_either():
    weights = parameters(torch.float32)
    optimizer = WideAdamW(weights, offload=True)
    optimizer.step()
    assert not optimizer.state
