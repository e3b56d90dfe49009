"""The loss that an engine is made with: a function of Rows, held to what it must return."""

import torch

from slimpack import InvalidInput
from slimpack.torch.losses.tokens import DOCUMENT, SUM, TOKEN, CrossEntropy, require_mean

_TRIED = 8  # rows of which a function must give what it gives for parts of them


class LossFunction:
    """function: called with Rows, returns one number for each, or (that, {metric: one for each}).
    mean: as of CrossEntropy."""

    def __init__(self, function, mean):
        self._function, self.mean = function, mean
        self._was_tried = False

    @property
    def is_plain_cross_entropy(self):
        return isinstance(self._function, CrossEntropy) and self._function.is_plain

    def divisor(self, weight):
        """The divisor of a step's loss whose targets have this weight together."""
        return 1.0 if self.mean == SUM else weight

    def __call__(self, rows):
        """(loss by row, metrics by row). Raises InvalidInput where the function returns anything else, and
        where its rows are not independent of each other: then what it adds up to would depend on the
        plan's cuts."""
        if not self._was_tried and len(rows) > 1:
            self._require_sum(rows)
            self._was_tried = True
        return self._called(rows)

    def _called(self, rows):
        said = self._function(rows)
        loss_T, metrics = said if isinstance(said, tuple) and len(said) == 2 else (said, {})
        _require_of_rows(loss_T, len(rows), "the loss")
        if not isinstance(metrics, dict):
            raise InvalidInput(f"the loss returns metrics of type {type(metrics).__name__}; give a dict of "
                               "tensors by name")
        for name, metric_T in metrics.items():
            _require_of_rows(metric_T, len(rows), f"the loss's metric {name!r}")
        return loss_T, metrics

    def _require_sum(self, rows):
        with torch.no_grad():
            few = _few(rows)
            whole_T = self._called(few)[0]
            half = len(few) // 2
            parts_T = torch.cat([self._called(few[:half])[0], self._called(few[half:])[0]])
        if not torch.allclose(whole_T, parts_T, rtol=1e-3, atol=1e-6, equal_nan=True):
            row = int((whole_T - parts_T).abs().argmax())
            raise InvalidInput(
                f"the loss gives {whole_T[row].item():.6g} for a row beside {len(few) - 1} others and "
                f"{parts_T[row].item():.6g} beside fewer, so its sum would depend on the plan's cuts; compute "
                "what rows share (means, norms) before the step, and hand it over by extras")


def _few(rows):
    few = rows[:_TRIED]
    few.logits_TV = few.logits_TV.detach()
    return few


def _require_of_rows(tensor, count, what):
    if not isinstance(tensor, torch.Tensor):
        raise InvalidInput(f"{what} is of type {type(tensor).__name__}, must be a tensor with one number for "
                           "each row")
    if tensor.shape != (count,) or not tensor.is_floating_point():
        raise InvalidInput(f"{what} has shape {list(tensor.shape)} and type {tensor.dtype} for {count} rows, must "
                           "be one floating-point number for each row; leave out mean() and sum()")


def loss_of(given):
    """The LossFunction of "token", "document", or a function of Rows, whose attribute `mean` counts, if it
    has one. Raises InvalidInput for anything else."""
    if given in (TOKEN, DOCUMENT):
        return LossFunction(CrossEntropy(mean=given), given)
    if not callable(given) or isinstance(given, type):
        raise InvalidInput(f'loss is {given!r}, must be "{TOKEN}", "{DOCUMENT}" or a function of a block of rows '
                           "(slimpack.torch.losses)")
    mean = getattr(given, "mean", TOKEN)
    require_mean(mean)
    return LossFunction(given, mean)
