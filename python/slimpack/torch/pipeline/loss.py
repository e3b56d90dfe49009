"""Next-token targets of a step, and the loss and its gradient in blocks of tokens."""

import torch
from torch.nn import functional

from slimpack.torch.collator import IGNORED

# A GPU needs many rows for products at full speed. 2 ** 28 logits are 1 GiB in fp32.
LOGITS_AT_ONCE = {"cpu": 1 << 24, "cuda": 1 << 28}


def targets_of(tokens, labels=None):
    """By token of a document the next one, or what `labels` has there; none for the last token."""
    targets = torch.full_like(tokens, IGNORED)
    targets[:-1] = (tokens if labels is None else labels)[1:]
    return targets


def loss_and_gradient(stage, hidden_TD, targets_T, divisor):
    """Adds the gradients of the head. Returns the summed loss / divisor (fp64, on the device) and
    its gradient by hidden_TD, which is after the final norm.

    Logits exist for a block of rows at a time.
    """
    loss = torch.zeros((), dtype=torch.float64, device=hidden_TD.device)
    gradient_TD = torch.zeros_like(hidden_TD)
    for block in _blocks(stage, targets_T):
        block_TD = hidden_TD[block].detach().requires_grad_()
        summed = _summed_loss(stage, block_TD, targets_T[block]) / divisor
        summed.backward()
        gradient_TD[block] = block_TD.grad
        loss += summed.detach()
    return loss, gradient_TD


def loss_alone(stage, hidden_TD, targets_T, divisor):
    """The loss that loss_and_gradient returns, without gradients."""
    loss = torch.zeros((), dtype=torch.float64, device=hidden_TD.device)
    with torch.no_grad():
        for block in _blocks(stage, targets_T):
            loss += _summed_loss(stage, hidden_TD[block], targets_T[block]) / divisor
    return loss


def _blocks(stage, targets_T):
    """The rows with a target, as many at a time as may have logits at once."""
    rows = (targets_T != IGNORED).nonzero()[:, 0]
    logits = LOGITS_AT_ONCE[targets_T.device.type]
    block_rows = max(1, logits // stage.model.config.get_text_config().vocab_size)
    return [block for block in rows.split(block_rows) if len(block)]


def _summed_loss(stage, rows_TD, targets_T):
    logits_TV = stage.logits(rows_TD)
    if logits_TV.dtype != torch.float64:
        logits_TV = logits_TV.float()
    return functional.cross_entropy(logits_TV, targets_T, reduction="sum")
