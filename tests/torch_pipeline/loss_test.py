"""The head's loss and its gradient, which takes the place of the logits."""

import importlib.util
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from slimpack.torch.losses.function import loss_of
from slimpack.torch.pipeline import cross_entropy, loss
from slimpack.torch.targets import Targets
from torch.nn import functional

# A program that compares the kernels, on a GPU or in a process that interprets Triton's kernels.
KERNEL = """
import torch
from slimpack.torch.pipeline import cross_entropy_kernel
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(1)
for columns in (2, 7, 8192, 10_001):
    logits_TV = (torch.randn(5, columns + 3) * 3).to(device)[:, :columns]
    logits_TV[0, :columns - 1] = logits_TV[1, 0] = -torch.inf
    targets_T = torch.full((5,), columns - 1, device=device)
    exact_TV = logits_TV.double().requires_grad_()
    scales_T = (torch.arange(5, dtype=torch.float32) / 17).to(device)
    exact_T = torch.nn.functional.cross_entropy(exact_TV, targets_T, reduction="none") * scales_T.double()
    gradient_TV, = torch.autograd.grad(exact_T.sum(), exact_TV)
    close = dict(rtol=1e-5, atol=1e-6, check_dtype=False)
    for into_TV in (None, torch.empty_like(logits_TV), logits_TV):
        losses_T = cross_entropy_kernel.run(logits_TV, targets_T, scales_T, into_TV)
        torch.testing.assert_close(losses_T, exact_T.detach(), **close)
        if into_TV is not None:
            torch.testing.assert_close(into_TV, gradient_TV, **close)
"""


def head_of(stage_logits, device="cpu"):
    """A last stage of which only the head is asked, with a vocabulary of 11."""
    text = SimpleNamespace(vocab_size=11)
    return SimpleNamespace(logits=stage_logits, device=torch.device(device),
                           model=SimpleNamespace(config=SimpleNamespace(get_text_config=lambda: text)))


def step_loss(stage_logits, device="cpu"):
    """A StepLoss of cross-entropy over 7."""
    return loss.StepLoss(head_of(stage_logits, device), loss_of("token"), 7)


def random_rows(dtype):
    torch.manual_seed(3)
    return torch.randn(9, 4, dtype=dtype), torch.tensor([3, -100, 0, 10, 5, -100, 5, 7, 1])


def weighted(targets_T, weights):
    """(Targets, by row the weight of its loss) of weights or of None."""
    weights_T = None if weights is None else torch.tensor(weights, dtype=torch.float64)
    return Targets(targets_T, weights_T), torch.ones(9) if weights is None else weights_T


# The last operation of a head keeps nothing, or its own result, which nobody may write over.
@pytest.mark.parametrize("ending", [lambda x: x * 2, torch.tanh, lambda x: torch.tanh(x)[:, :]])
@pytest.mark.parametrize("rows", [1, 4, 100])  # logits in one block and in several
@pytest.mark.parametrize("weights", [None, [0.5, 9.0, 3.0, 1.0, 1e-3, 9.0, 2.0, 1.0, 0.25]])
def test_gradients_are_those_of_autograd(monkeypatch, ending, rows, weights):
    monkeypatch.setitem(loss.LOGITS_AT_ONCE, "cpu", 11 * rows)
    hidden_TD, targets_T = random_rows(torch.float64)
    targets, weights_T = weighted(targets_T, weights)
    weight_VD = torch.randn(11, 4, dtype=torch.float64)
    ours, theirs = (weight_VD.clone().requires_grad_() for _ in range(2))
    found, alone = (step_loss(lambda x: ending(x @ ours.T)) for _ in range(2))
    gradient_TD = found.add(hidden_TD, targets)
    leaf_TD = hidden_TD.clone().requires_grad_()
    losses_T = functional.cross_entropy(ending(leaf_TD @ theirs.T), targets_T, ignore_index=-100,
                                        reduction="none")
    exact = (losses_T * weights_T).sum() / 7
    exact.backward()
    torch.testing.assert_close(found.total, exact.detach(), rtol=1e-14, atol=0)
    torch.testing.assert_close(gradient_TD, leaf_TD.grad, rtol=1e-12, atol=1e-15)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-12, atol=1e-15)
    alone.add_alone(hidden_TD, targets)
    assert alone.total == found.total


def test_logits_that_are_widened_in_pieces_have_the_gradient_of_all_at_once(monkeypatch):
    logits_TV, targets_T = torch.randn(9, 11).bfloat16(), torch.arange(9)
    at_once, in_pieces = logits_TV.clone(), logits_TV.clone()
    whole = cross_entropy.loss_and_gradient_of(at_once, targets_T, 7, at_once)
    monkeypatch.setattr(cross_entropy, "WIDE_AT_ONCE", 25)  # two rows
    pieces = cross_entropy.loss_and_gradient_of(in_pieces, targets_T, 7, in_pieces)
    assert torch.equal(at_once, in_pieces) and not torch.equal(at_once, logits_TV)
    torch.testing.assert_close(pieces, whole, rtol=1e-6, atol=0)  # fp32 sums in another order


def test_nobody_waits_for_the_device(monkeypatch):
    # Tensors without values: an operation that asks for one fails.
    monkeypatch.setitem(loss.LOGITS_AT_ONCE, "meta", 44)
    weight = torch.empty(11, 4, device="meta", requires_grad=True)
    found = step_loss(lambda x: x @ weight.T, "meta")
    hidden_TD, targets_T = random_rows(torch.float32)
    targets, _ = weighted(targets_T, [2.0] * 9)
    gradient_TD = found.add(hidden_TD.to("meta"), targets)
    assert gradient_TD.shape == hidden_TD.shape and weight.grad.shape == weight.shape


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
def test_the_kernel_has_the_losses_and_gradients_of_plain_operators():
    interpreted = {} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"}
    run = subprocess.run([sys.executable, "-c", KERNEL], capture_output=True, text=True, timeout=120,
                         env={**os.environ, **interpreted,
                              "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    assert run.returncode == 0, run.stderr
