"""Finds out how a stage's layers use keys, values and masks, by running them on a few tokens."""

import torch

from slimpack import InvalidInput
from slimpack.torch.pipeline.attention import Attention, Reach
from slimpack.torch.pipeline.layers import End, Skip
from slimpack.torch.pipeline.ownership import call_model
from slimpack.torch.pipeline.refusals import reason_of
from slimpack.torch.pipeline.work import Stopped


class _LookingWork:
    """Takes the place of SliceWork: notes what a layer asks for and computes no attention."""

    def __init__(self):
        self.updates = self.calls = 0
        self.mask, self.options = None, {}

    def update(self, key_1HTD, value_1HTD, layer):
        self.updates += 1
        return key_1HTD, value_1HTD

    def attend(self, module, layer, query_1HTD, key_1HTD, value_1HTD, mask, options):
        self.calls += 1
        self.mask, self.options = mask, options
        shape = (1, query_1HTD.shape[2], query_1HTD.shape[1], value_1HTD.shape[3])
        return query_1HTD.new_zeros(shape)

    def sees_later_tokens(self):
        first, second = torch.arange(2, device="cpu").split(1)
        try:
            return self.mask is not None and bool(self.mask.sees(first, second))
        except RuntimeError:  # a rule that holds tensors of the meta device
            return False


def observe(model, layers, own, running):
    """The Attention of the layers in the range `own`, and how often the last of them hands over
    keys.

    Runs on the meta device, too, where a layer may fail after its attention (experts are chosen by
    values, which such tensors lack). Leaves the model as it was.

    Raises InvalidInput for layers whose attention does not go through transformers' registry, or
    that keep more than keys and values.
    """
    looks = {i: _look(model, layers, i, running) for i in own}
    by_cache = any(look.updates for look in looks.values())
    for i, look in looks.items():
        if look.updates > 1:
            raise InvalidInput(
                f"layer {i} of {type(model).__name__} hands {look.updates} pairs of keys and "
                "values to its cache, this runtime carries one; train this model without a "
                "pipeline")
        if by_cache and not look.updates:
            raise InvalidInput(
                f"layer {i} of {type(model).__name__} uses the keys and values of another layer, "
                "which may lie on another stage; train this model without a pipeline")
    attention = Attention(by_cache, {i: _reach(look) for i, look in looks.items()})
    last = looks[max(own)]
    return attention, last.updates if by_cache else last.calls


def _look(model, layers, own, running):
    """Runs one layer."""
    mine, look = list(layers), _LookingWork()
    for i in range(len(layers)):
        if i != own:
            layers[i] = End() if i == own + 1 else Skip()
    running.work = look
    try:
        with torch.no_grad():
            call_model(model, running)
    except Stopped:
        pass
    except Exception as error:
        if not look.calls:
            raise _unusable(model, own, reason_of(model, error)) from error
    finally:
        running.work = None
        for i, layer in enumerate(mine):
            layers[i] = layer
    if not look.calls:
        raise _unusable(model, own, "its attention does not go through transformers' interface")
    if look.sees_later_tokens():
        raise _unusable(model, own, "its tokens see later ones")
    return look


def _unusable(model, layer, reason):
    return InvalidInput(
        f"layer {layer} of {type(model).__name__} cannot run on slices: {reason}; train this model "
        "without a pipeline")


def _reach(look):
    if look.mask is None:
        return Reach(look.options.get("sliding_window"), True)
    try:
        return look.mask.reach()
    except RuntimeError:  # a rule that holds tensors of the meta device
        return Reach(None, False)
