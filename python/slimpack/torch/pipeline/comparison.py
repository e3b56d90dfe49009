"""Compares a pipeline's step with plain training: one document at a time, by the model's own
code."""

import torch
from torch.autograd.graph import get_gradient_edge
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from slimpack.torch.collator import IGNORED
from slimpack.torch.pipeline.loss import targets_of

_FLOOR = 1e-5  # of the model's largest gradient: some gradients are 0 but for rounding


class Fp64Casts(TorchFunctionMode):
    """Turns casts to fp32 in a model's code into casts to fp64, so that an fp64 model computes in
    fp64. Also in what backward runs again."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.autograd.backward:
            roots, *rest = args
            edges = [get_gradient_edge(root) for root in roots]
            with self:  # of edges torch does not ask modes, so this one stays
                return torch.autograd.backward(edges, *rest, **(kwargs or {}))
        if function is torch.Tensor.float:
            function = torch.Tensor.double
        args = [_wide(value) for value in args]
        return function(*args, **{name: _wide(value) for name, value in (kwargs or {}).items()})


def _wide(value):
    return torch.float64 if value is torch.float32 else value


def plain_step(model, documents, labels=None):
    """Adds the gradients of a step's mean loss over its targets to a whole model's parameters.
    Returns the loss."""
    targets_of_all = [targets_of(tokens, None if labels is None else labels[i])
                      for i, tokens in enumerate(documents)]
    count = max(sum(int((targets != IGNORED).sum()) for targets in targets_of_all), 1)
    loss = 0.0
    for tokens, targets in zip(documents, targets_of_all, strict=True):
        logits_TV = model(input_ids=tokens[None], use_cache=False).logits[0]
        if logits_TV.dtype != torch.float64:
            logits_TV = logits_TV.float()
        summed = functional.cross_entropy(logits_TV, targets, ignore_index=IGNORED,
                                          reduction="sum") / count
        summed.backward()
        loss += summed.item()
    return loss


def largest_difference(model, stages):
    """(relative difference, parameter) of the gradient that differs most between a whole model and
    the stages of its copy. Relative to the largest entry of the model's gradient, or a floor."""
    expected = {name: parameter.grad for name, parameter in model.named_parameters()
                if parameter.grad is not None}
    largest = max(gradient.abs().max().item() for gradient in expected.values())
    worst = 0.0, ""
    for stage in stages:
        for name, parameter in stage.model.named_parameters():
            found = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            reference = expected.get(name, torch.zeros_like(found))
            scale = max(reference.abs().max().item(), largest * _FLOOR)
            worst = max(worst, ((found - reference).abs().max().item() / scale, name))
    missing = expected.keys() - {name for s in stages for name, _ in s.model.named_parameters()}
    return (float("inf"), min(missing)) if missing else worst
