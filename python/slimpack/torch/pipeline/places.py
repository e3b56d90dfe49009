"""Positions of tokens, in families that do not take them from their caller, or count them from another
number than 0."""

import inspect

import torch

from slimpack import InvalidInput


def padding_before_places(model):
    """The padding token after whose number a model counts positions, as RoBERTa's kind does; None = it
    counts from 0."""
    for module in model.modules():
        if hasattr(module, "create_position_ids_from_input_ids"):
            return module.padding_idx
    return None


def require_no_padding(ids_T, padding, name):
    """Raises InvalidInput where a document has the token that such a model does not count."""
    if padding is not None and bool((ids_T == padding).any()):
        raise InvalidInput(
            f"{name} has the padding token {padding}, which this model does not count as a position; "
            "leave it out")


def by_place(decoder, running):
    """Lets modules that count the rows of a call take the rows' places in their documents, where a
    decoder is not told positions."""
    if "position_ids" in inspect.signature(decoder.forward).parameters:
        return
    for module in decoder.modules():
        if {"past_key_values_length", "position_ids"} <= inspect.signature(module.forward).parameters.keys():
            module.forward = _ByPlace(module.forward, running)


class _ByPlace:
    def __init__(self, forward, running):
        self._forward, self._running = forward, running

    def __call__(self, *args, **kwargs):
        offsets_T = self._running.offsets_T
        places_T = offsets_T + torch.arange(len(offsets_T), device=offsets_T.device)
        return self._forward(*args, **kwargs | {"position_ids": places_T})
