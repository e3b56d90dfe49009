"""Next-token targets of a step, and the loss and its gradient in blocks of tokens."""

import torch
from torch.nn import functional

from slimpack.torch.collator import IGNORED

LOGITS_AT_ONCE = 1 << 24


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
    rows = (targets_T != IGNORED).nonzero()[:, 0]
    block_rows = max(1, LOGITS_AT_ONCE // stage.model.config.get_text_config().vocab_size)
    for block in rows.split(block_rows):
        if not len(block):
            continue
        block_TD = hidden_TD[block].detach().requires_grad_()
        logits_TV = stage.logits(block_TD)
        if logits_TV.dtype != torch.float64:
            logits_TV = logits_TV.float()
        summed = functional.cross_entropy(logits_TV, targets_T[block], reduction="sum") / divisor
        summed.backward()
        gradient_TD[block] = block_TD.grad
        loss += summed.detach()
    return loss, gradient_TD
