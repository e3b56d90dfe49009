"""The loss of a step and its gradient in blocks of tokens."""

import torch

from slimpack.labelled import IGNORED
from slimpack.torch.pipeline.cross_entropy import loss_and_gradient_of

# A GPU needs many rows for products at full speed. 2 ** 29 logits are 1 GiB in bf16.
LOGITS_AT_ONCE = {"cpu": 1 << 24, "cuda": 1 << 29}


def loss_and_gradient(stage, hidden_TD, targets, divisor):
    """Adds the gradients of the head. Returns the weighted sum of losses / divisor (fp64, on the
    device) and its gradient by hidden_TD, which is after the final norm.

    targets: Targets in the host's memory, so that nobody waits for a GPU to learn which rows have one.
    Logits exist for a block of rows at a time, and their gradient takes their place.
    """
    loss = torch.zeros((), dtype=torch.float64, device=hidden_TD.device)
    gradient_TD = torch.zeros_like(hidden_TD)
    for rows, labels, weights in _blocks(stage, targets):
        block_TD = hidden_TD[rows].detach().requires_grad_()
        logits_TV, is_kept = _logits(stage, block_TD)
        into_TV = torch.empty_like(logits_TV) if is_kept else logits_TV.detach()
        loss += loss_and_gradient_of(logits_TV.detach(), labels, divisor, into_TV, weights)
        logits_TV.backward(into_TV)
        gradient_TD[rows] = block_TD.grad
    return loss, gradient_TD


def loss_alone(stage, hidden_TD, targets, divisor):
    """The loss that loss_and_gradient returns, without gradients."""
    loss = torch.zeros((), dtype=torch.float64, device=hidden_TD.device)
    with torch.no_grad():
        for rows, labels, weights in _blocks(stage, targets):
            loss += loss_and_gradient_of(stage.logits(hidden_TD[rows]), labels, divisor, None, weights)
    return loss


def _blocks(stage, targets):
    """(rows, labels, weights or None) on the stage's device of the rows with a target, as many at a
    time as may have logits at once."""
    rows_T = (targets.labels_T != IGNORED).nonzero()[:, 0]
    columns = [rows_T, targets.labels_T[rows_T]]
    if targets.weights_T is not None:
        columns.append(targets.weights_T[rows_T].view(torch.int64))  # the same bits: one copy takes all
    columns_CT = torch.stack(columns)
    if stage.device.type == "cuda":
        columns_CT = columns_CT.pin_memory()
    columns_CT = columns_CT.to(stage.device, non_blocking=True)
    logits = LOGITS_AT_ONCE[stage.device.type]
    block_rows = max(1, logits // stage.model.config.get_text_config().vocab_size)
    return [_block(*block_CT) for block_CT in columns_CT.split(block_rows, 1) if block_CT.shape[1]]


def _block(rows_T, labels_T, weights_T=None):
    return rows_T, labels_T, None if weights_T is None else weights_T.view(torch.float64)


def _logits(stage, rows_TD):
    """Logits, and whether the backward pass of the head reads their memory: some end with an
    operation that keeps its result."""
    kept = set()

    def note(tensor):
        kept.add(tensor.untyped_storage().data_ptr())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        logits_TV = stage.logits(rows_TD)
    return logits_TV, logits_TV.untyped_storage().data_ptr() in kept
