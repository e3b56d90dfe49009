"""Compares a pipeline's step with plain training: one document at a time, by the model's own
code."""

import contextlib
import math

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from slimpack.labelled import IGNORED, tokens_of
from slimpack.torch.targets import weighted_targets_of

_FLOOR = 1e-5  # of the model's largest gradient: some gradients are 0 but for rounding


class Fp64Casts(TorchFunctionMode):
    """Turns casts to fp32 in a model's code into casts to fp64, so that an fp64 model computes in
    fp64: forward, and where backward passes run code of the model again (checkpoints) or run code
    of its own."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in _BACKWARD:
            with _backward_under(self):
                return function(*args, **(kwargs or {}))
        if function is torch.Tensor.float:
            function = torch.Tensor.double
        args = [_wide(value) for value in args]
        return function(*args, **{name: _wide(value) for name, value in (kwargs or {}).items()})


_BACKWARD = (torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad)


@contextlib.contextmanager
def _backward_under(mode):
    """Backward passes within it run under the mode, which torch takes off where it is asked for
    one."""
    run = torch.autograd._engine_run_backward

    def run_under_mode(*args, **kwargs):
        with mode:
            return run(*args, **kwargs)

    torch.autograd._engine_run_backward = run_under_mode
    try:
        yield
    finally:
        torch.autograd._engine_run_backward = run


def _wide(value):
    return torch.float64 if value is torch.float32 else value


def plain_step(model, documents):
    """Adds the gradients of a step's loss, the mean over its targets by their weights, to a whole
    model's parameters. documents: tensors of token ids, or LabelledTokens of tensors. Returns the
    loss."""
    targets_of_all = [weighted_targets_of(document) for document in documents]
    divisor = sum(targets.weight for targets in targets_of_all) or 1.0
    loss = 0.0
    for document, targets in zip(documents, targets_of_all, strict=True):
        logits_TV = model(input_ids=tokens_of(document)[None], use_cache=False).logits[0]
        if logits_TV.dtype != torch.float64:
            logits_TV = logits_TV.float()
        losses_T = functional.cross_entropy(logits_TV, targets.labels_T, ignore_index=IGNORED,
                                            reduction="none")
        if targets.weights_T is not None:
            losses_T = losses_T * targets.weights_T.to(losses_T)
        summed = losses_T.sum() / divisor
        summed.backward()
        loss += summed.item()
    return loss


def gradients_of(model):
    """By name the gradients of a model's or a stage's parameters; zeros where one has none."""
    return {name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            for name, parameter in model.named_parameters()}


def largest_difference(model, stages):
    """(relative difference, parameter) of the gradient that differs most between a whole model and
    the stages of its copy. Relative to the largest entry of the model's gradient, or a floor. A
    number that is no number differs infinitely."""
    return largest_of(model, [gradients_of(stage.model) for stage in stages])


def largest_of(model, found_of):
    """The largest_difference of gradients_of the model of every stage."""
    expected = {name: parameter.grad for name, parameter in model.named_parameters()
                if parameter.grad is not None}
    largest = max(gradient.abs().max().item() for gradient in expected.values())
    worst = 0.0, ""
    for of_stage in found_of:
        for name, found in of_stage.items():
            reference = expected.get(name, torch.zeros_like(found))
            scale = max(reference.abs().max().item(), largest * _FLOOR)
            difference = (found - reference).abs().max().item() / scale
            worst = max(worst, (math.inf if math.isnan(difference) else difference, name))
    missing = expected.keys() - {name for of_stage in found_of for name in of_stage}
    return (math.inf, min(missing)) if missing else worst
