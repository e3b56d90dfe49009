"""The loss of logits and its gradient, which takes their place. Logits in fp32 exist for a few rows
at a time, or for none."""

import functools
import importlib.util

import torch
from torch.nn import functional

# Logits that are widened at once. A processor takes a block of rows as a whole (loss.py).
WIDE_AT_ONCE = 1 << 26


def widened(logits_TV):
    """The logits in fp32, or in fp64 as they are."""
    return logits_TV if logits_TV.dtype == torch.float64 else logits_TV.float()


def loss_and_gradient_of(logits_TV, targets_T, divisor, gradient_TV, weights_T=None):
    """The sum of weight · cross-entropy / divisor (fp64, on the device). Its gradient is written to
    gradient_TV, which may be logits_TV; None = the loss alone. weights_T: fp64; None = 1 each.

    Computes in fp32, in fp64 for logits in that.
    """
    if _takes_kernel(logits_TV):
        from slimpack.torch.pipeline.cross_entropy_kernel import run  # needs triton

        if weights_T is None:
            weights_T = torch.ones(len(logits_TV), dtype=torch.float64, device=logits_TV.device)
        losses_T = run(logits_TV, targets_T, (weights_T / divisor).float(), gradient_TV)
        return losses_T.sum(dtype=torch.float64)
    rows = max(1, WIDE_AT_ONCE // logits_TV.shape[1])
    pieces = [slice(i, i + rows) for i in range(0, len(logits_TV), rows)]
    return sum(_by_autograd(logits_TV[piece], targets_T[piece], divisor,
                            None if gradient_TV is None else gradient_TV[piece],
                            None if weights_T is None else weights_T[piece])
               for piece in pieces)


def _by_autograd(logits_TV, targets_T, divisor, gradient_TV, weights_T):
    with torch.set_grad_enabled(gradient_TV is not None):
        wide_TV = widened(logits_TV).detach().requires_grad_(gradient_TV is not None)
        if weights_T is None:
            loss = functional.cross_entropy(wide_TV, targets_T, reduction="sum") / divisor
        else:
            losses_T = functional.cross_entropy(wide_TV, targets_T, reduction="none")
            loss = (losses_T * (weights_T / divisor).to(wide_TV.dtype)).sum()
    if gradient_TV is not None:
        gradient_TV.copy_(torch.autograd.grad(loss, wide_TV)[0])
    return loss.detach().double()


def _takes_kernel(logits_TV):
    """Whether one kernel of a GPU does it all: the place for another one."""
    fits = logits_TV.dtype != torch.float64 and logits_TV.stride(-1) == 1
    return logits_TV.is_cuda and fits and _has_triton()


@functools.cache
def _has_triton():
    return importlib.util.find_spec("triton") is not None  # torch's wheels for GPUs bring it
