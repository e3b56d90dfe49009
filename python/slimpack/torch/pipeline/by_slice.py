"""Attention that computes with the mask itself: runs slice by slice, in the family's own code.

Some families' attention modules do not call transformers' attention interface, or choose keys by
scores before they do (sparse attention with an indexer). They need a mask of numbers, over all keys
of one document. So such a module's forward runs on each slice of a MicroPack by itself, with the
rows, positions and mask of that slice and a cache that holds this document's keys. All else of a
layer runs on the whole MicroPack.
"""

import contextlib

import torch

from slimpack.torch.pipeline.attention import MaskRule
from slimpack.torch.pipeline.layers import first_argument


class BySlice:
    """Takes the place of an attention module's forward.

    A MicroPack holds a document's slices in ascending order, and autograd runs backward what ran last
    first, so the gradient of a prefix is there before its own slice asks for it.
    """

    def __init__(self, module, running):
        self._module, self._forward, self._running = module, module.forward, running

    @torch.compiler.disable
    def __call__(self, *args, **kwargs):
        work, offsets_T = self._running.work, self._running.offsets_T
        outputs, row = [], 0
        try:
            for number, part in enumerate(work.pack.slices):
                one = work.of_slice(number)
                of = _OfSlice(one, number, row, work.pack.tokens, first_argument(args, kwargs))
                self._running.work, self._running.offsets_T = one, part.begin
                with _own_arithmetic(self._module):
                    outputs.append(self._forward(*of.value(args), **of.value(kwargs)))
                row += part.end - part.begin
        finally:
            self._running.work, self._running.offsets_T = work, offsets_T
        return _joined(outputs, [part.end - part.begin for part in work.pack.slices])


_SETTING = "_attn_implementation_internal"  # behind a property that would change nested settings, too


@contextlib.contextmanager
def _own_arithmetic(module):
    """Within it, a module that asks its configuration for an implementation of attention finds one of
    transformers'."""
    settings = vars(module.config) if getattr(module, "config", None) else {}
    if _SETTING not in settings:
        yield
        return
    before = settings[_SETTING]
    settings[_SETTING] = "sdpa" if module.slimpack_sdpa else "eager"
    try:
        yield
    finally:
        settings[_SETTING] = before


class _BySlice(list):
    """Values of slices that have no common tensor, such as keys chosen by slice."""


class _OfSlice:
    """Finds the part of a module's arguments that belongs to one slice."""

    def __init__(self, work, number, row, rows, hidden):
        self._work, self._number, self._hidden = work, number, hidden
        self._row, self._rows = row, rows

    def value(self, value):
        if isinstance(value, _BySlice):
            return value[self._number]
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, MaskRule):
            return self._work.mask_of(value, self._hidden)
        if isinstance(value, (tuple, list)):
            return type(value)(map(self.value, value))
        if isinstance(value, dict):
            return {name: self.value(of) for name, of in value.items()}
        return value

    def _tensor(self, tensor):
        """Rows are the first dimension after those of size 1."""
        for dimension, size in enumerate(tensor.shape):
            if size == self._rows and dimension:
                part, = self._work.pack.slices
                return tensor.narrow(dimension, self._row, part.end - part.begin)
            if size != 1:
                break
        return tensor


def _joined(outputs, rows):
    """Returns what the module would have returned for all rows."""
    first = outputs[0]
    if isinstance(first, (tuple, list)):
        return type(first)(_joined(list(values), rows) for values in zip(*outputs, strict=True))
    if all(value is first for value in outputs):  # None, or a parameter
        return first
    if all(isinstance(value, torch.Tensor) and value.ndim > 1 and value.shape[1] == own
           and value.shape[2:] == first.shape[2:] for value, own in zip(outputs, rows, strict=True)):
        return torch.cat(outputs, 1)
    return _BySlice(outputs)
