"""Cross-entropy of logits and its gradient as one kernel in Triton, in place.

A program takes one row:

1. One pass over the row gives its largest logit and the sum of exponentials, corrected whenever a
   larger logit comes.
2. The target's logit is read before anything is written.
3. A second pass writes (softmax − one at the target) · the row's scale, rounded once.

It reads logits twice and writes them once: 6 bytes a logit in bf16. Sums have a fixed order.
"""

import torch
import triton
import triton.language as tl

_WIDTH = 8192  # logits of a row at a time


def run(logits_TV, targets_T, scales_T, gradient_TV):
    """Returns (logsumexp − the target's logit) · scale by row, fp32. The gradient goes to gradient_TV,
    which may be logits_TV; None = the losses alone. Targets are columns of logits. scales_T: fp32. Last
    strides are 1."""
    losses_T = torch.empty(len(logits_TV), dtype=torch.float32, device=logits_TV.device)
    into_TV = logits_TV if gradient_TV is None else gradient_TV
    with torch.cuda.device_of(logits_TV):
        _rows[(len(logits_TV),)](
            logits_TV, targets_T, scales_T, losses_T, into_TV, logits_TV.stride(0),
            into_TV.stride(0), logits_TV.shape[1], gradient_TV is not None, _WIDTH, num_warps=16)
    return losses_T


@triton.jit
def _rows(logits, targets, scales, losses, into, logits_stride, into_stride, vocabulary,
          GRADIENT: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits += row * logits_stride
    into += row * into_stride
    target, scale = tl.load(targets + row), tl.load(scales + row)
    of_target = tl.load(logits + target).to(tl.float32)
    columns = tl.arange(0, WIDTH)
    largest, total = -3.0e38, 0.0  # finite: logits may be −∞
    for begin in range(0, vocabulary, WIDTH):
        x = tl.load(logits + begin + columns, mask=begin + columns < vocabulary,
                    other=-float("inf")).to(tl.float32)
        larger = tl.maximum(largest, tl.max(x, 0))
        total = total * tl.exp(largest - larger) + tl.sum(tl.exp(x - larger), 0)
        largest = larger
    lse = largest + tl.log(total)
    tl.store(losses + row, (lse - of_target) * scale)
    if GRADIENT:
        tl.debug_barrier()  # other threads of the program may still read the target's logit
        for begin in range(0, vocabulary, WIDTH):
            at = begin + columns
            x = tl.load(logits + at, mask=at < vocabulary, other=-float("inf")).to(tl.float32)
            gradient = (tl.exp(x - lse) - tl.where(at == target, 1.0, 0.0)) * scale
            tl.store(into + at, gradient.to(into.dtype.element_ty), mask=at < vocabulary)
