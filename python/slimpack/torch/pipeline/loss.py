"""The loss of a step on its last stage, and its gradient, in blocks of rows."""

import collections

import torch

from slimpack import InvalidInput
from slimpack.labelled import IGNORED
from slimpack.torch.losses.rows import Rows
from slimpack.torch.pipeline.cross_entropy import WIDE_AT_ONCE, loss_and_gradient_of, widened

# A GPU needs many rows for products at full speed. 2 ** 29 logits are 1 GiB in bf16.
LOGITS_AT_ONCE = {"cpu": 1 << 24, "cuda": 1 << 29}


class StepLoss:
    """Adds up what MicroPacks lose.

    loss: a LossFunction. divisor: of all sums; the weight of all targets of the whole step where the
    loss is a mean.
    total: the weighted sum of losses / divisor so far (fp64, on the device). metrics: likewise, by name.
    """

    def __init__(self, stage, loss, divisor):
        self._stage, self._loss, self._divisor = stage, loss, divisor
        self.total = torch.zeros((), dtype=torch.float64, device=stage.device)
        self.metrics = {}

    @property
    def is_plain_cross_entropy(self):
        """Whether it is the cross-entropy alone, for which there are kernels, and no metrics."""
        return self._loss.is_plain_cross_entropy

    def add(self, hidden_TD, targets):
        """Adds the loss of a MicroPack's rows after the final norm, and the gradients of the head. Returns
        the loss's gradient by hidden_TD.

        targets: Targets in the host's memory, so that nobody waits for a GPU to learn which rows have one.
        Logits exist for a block of rows at a time.
        """
        gradient_TD = torch.zeros_like(hidden_TD)
        for rows_T, *of_rows in self._blocks(targets):
            block_TD = hidden_TD[rows_T].detach().requires_grad_()
            if self.is_plain_cross_entropy:
                self._add_cross_entropy(block_TD, *of_rows)
            else:
                self._add_function(block_TD, *of_rows)
            gradient_TD[rows_T] = block_TD.grad
        return gradient_TD

    def add_alone(self, hidden_TD, targets):
        """Adds the loss without any gradient."""
        with torch.no_grad():
            for rows_T, labels_T, weights_T, extras in self._blocks(targets):
                logits_TV = self._stage.logits(hidden_TD[rows_T])
                if self.is_plain_cross_entropy:
                    self.total += loss_and_gradient_of(logits_TV, labels_T, self._divisor, None, weights_T)
                else:
                    self._count(self._rows(widened(logits_TV), labels_T, weights_T, extras))

    def _blocks(self, targets):
        if self.is_plain_cross_entropy:
            return blocks_of(self._stage, targets, LOGITS_AT_ONCE[self._stage.device.type])
        most = min(LOGITS_AT_ONCE[self._stage.device.type], WIDE_AT_ONCE)
        return blocks_of(self._stage, targets, most, targets.extras)

    def _add_cross_entropy(self, block_TD, labels_T, weights_T, _):
        """The gradient of logits takes their place."""
        logits_TV, is_kept = _logits(self._stage, block_TD)
        into_TV = torch.empty_like(logits_TV) if is_kept else logits_TV.detach()
        self.total += loss_and_gradient_of(logits_TV.detach(), labels_T, self._divisor, into_TV, weights_T)
        logits_TV.backward(into_TV)

    def _add_function(self, block_TD, labels_T, weights_T, extras):
        logits_TV = self._stage.logits(block_TD)
        wide_TV = widened(logits_TV.detach()).detach().requires_grad_()
        loss = self._count(self._rows(wide_TV, labels_T, weights_T, extras))
        if not loss.requires_grad:
            raise InvalidInput("the loss does not depend on the model, so there is nothing to learn; compute it "
                               "from rows.logprobs_T or rows.logits_TV, without detach() or no_grad()")
        gradient_TV, = torch.autograd.grad(loss, wide_TV)
        logits_TV.backward(gradient_TV.to(logits_TV.dtype))

    def _rows(self, wide_TV, labels_T, weights_T, extras):
        if weights_T is None:
            weights_T = torch.ones(len(labels_T), dtype=torch.float64, device=labels_T.device)
        return Rows(wide_TV, labels_T, weights_T, extras)

    def _count(self, rows):
        """Adds up loss and metrics of rows. Returns their share of the total."""
        loss_T, metrics = self._loss(rows)
        share_T = rows.weights_T / self._divisor
        loss = (loss_T.double() * share_T).sum()
        self.total += loss.detach()
        for name, metric_T in metrics.items():
            found = (metric_T.detach().double() * share_T).sum()
            self.metrics[name] = self.metrics[name] + found if name in self.metrics else found
        return loss


def sums_by_name(metrics):
    """By name the sum of the metrics of several stages."""
    found = collections.defaultdict(float)
    for of_stage in metrics:
        for name, value in of_stage.items():
            found[name] += float(value)
    return dict(found)


def logprobs_of(stage, hidden_TD, targets):
    """By row the log-probability of its target, [T], fp32 or wider; 0 where it has none."""
    with torch.no_grad():
        found_T = torch.zeros(len(hidden_TD), dtype=widened(hidden_TD[:0]).dtype, device=hidden_TD.device)
        for rows_T, labels_T, weights_T, _ in blocks_of(stage, targets, WIDE_AT_ONCE):
            found_T[rows_T] = Rows(widened(stage.logits(hidden_TD[rows_T])), labels_T, weights_T, {}).logprobs_T
    return found_T


def blocks_of(stage, targets, logits, extras=None):
    """(rows, labels, weights or None, extras by name) on the stage's device of the rows with a target: as
    many at a time as have at most so many logits, or one."""
    rows_T = (targets.labels_T != IGNORED).nonzero()[:, 0]
    columns = [rows_T, targets.labels_T[rows_T]]
    if targets.weights_T is not None:
        columns.append(targets.weights_T[rows_T].view(torch.int64))  # the same bits: one copy takes all
    columns_CT = _on_device(torch.stack(columns), stage.device)
    block_rows = max(1, logits // stage.model.config.get_text_config().vocab_size)
    for begin in range(0, len(rows_T), block_rows):
        block = slice(begin, begin + block_rows)
        block_T, labels_T, *weights = columns_CT[:, block]
        of_block = {name: _on_device(of_token[rows_T[block]], stage.device)
                    for name, of_token in (extras or {}).items()}
        yield block_T, labels_T, weights[0].view(torch.float64) if weights else None, of_block


def _on_device(tensor, device):
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


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
