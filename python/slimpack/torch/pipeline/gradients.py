"""Gradients of a stage: summed over ranks, and beside those that were there before a step. Weights:
whether they are finite."""

import contextlib

import torch
from torch.distributed.tensor import DTensor

from slimpack import InvalidInput


def local(tensor):
    """The part of a tensor that this rank holds: a share where replicas share it out, else all."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


@contextlib.contextmanager
def added_to_others(parameters):
    """Inside, parameters have no gradients yet; afterwards the earlier ones are added."""
    parameters = list(parameters)
    earlier = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    yield
    for parameter, gradient in zip(parameters, earlier, strict=True):
        if parameter.grad is None:
            parameter.grad = gradient
        elif gradient is not None:
            parameter.grad += gradient


def summed(parameters, groups, name):
    """Sums the gradients of parameters that are trained over the ranks of a group, in place. A rank
    without one adds zeros."""
    if not groups.has(name):
        return
    for parameter in (parameter for parameter in parameters if parameter.requires_grad):
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter, dtype=parameter.grad_dtype)
        groups.sum(local(parameter.grad), name)


def require_all_trained(stage, optimizer):
    """Raises InvalidInput for an optimizer that lacks parameters of the stage, or has others: these gradients
    would stay and add up, or the step would change nothing."""
    given = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    trained = {parameter for parameter in stage.parameters() if parameter.requires_grad}
    if missing := trained - given:
        raise InvalidInput(
            f"the optimizer has {len(trained) - len(missing)} of the stage's {len(trained)} parameters that are "
            "trained; give one optimizer with all of them, made after the engine, and freeze what is not to "
            "be trained (requires_grad_(False))")
    if others := given - set(stage.parameters()):
        raise InvalidInput(
            f"the optimizer has {len(others)} parameters that are none of this stage's; make it of "
            "stage.parameters()")


def unusable(tensors):
    """How many of (name, tensor) hold a number that is not finite, on their device, for which nobody
    waits. Reads every number once."""
    found = [(~torch.isfinite(torch.stack(torch.aminmax(local(tensor.detach()))))).any()
             for _, tensor in tensors
             if tensor.is_floating_point() and local(tensor).numel()]  # a NaN is both extremes
    return torch.stack(found).sum() if found else torch.zeros((), dtype=torch.int64)


def squared_norm(stage, of_others=frozenset()):
    """The sum of squares of a stage's gradients, fp32 or wider; tied parameters count on the first
    stage alone. of_others: parameters that count on other ranks."""
    counted_elsewhere = set(of_others)
    if not stage.place.is_first:
        counted_elsewhere.update(stage.tied_parameters())
    wide = torch.float64 if stage.dtype == torch.float64 else torch.float32
    total = torch.zeros((), dtype=wide, device=stage.device)
    for parameter in stage.parameters():
        if parameter.grad is not None and parameter not in counted_elsewhere:
            total += local(parameter.grad).to(wide).square().sum()
    return total
