"""Finds out how a stage's layers use keys, values, states and masks, by running them on a few
tokens."""

import contextlib
import dataclasses

import torch
from torch import nn

from slimpack import InvalidInput
from slimpack.export.slices import Slice
from slimpack.torch.pipeline.attention import Attention, Reach
from slimpack.torch.pipeline.by_slice import BySlice
from slimpack.torch.pipeline.layers import End, Skip
from slimpack.torch.pipeline.ownership import TOKENS, call_model
from slimpack.torch.pipeline.packs import Pack
from slimpack.torch.pipeline.refusals import mixes_no_tokens, reason_of, stage_begins
from slimpack.torch.pipeline.work import Stopped


@dataclasses.dataclass
class Observed:
    """How a stage's layers use what is kept between slices.

    attention: the Attention of those layers that have some.
    last_gathers: how often the last layer hands over keys and values and needs nothing else to be
        kept.
    mixers: by layer that has states the modules which ask for them.
    """

    attention: Attention
    last_gathers: int
    mixers: dict[int, list[nn.Module]]


class _LookingWork:
    """Takes the place of SliceWork and its Segment: notes what one layer asks for and computes no
    attention.

    attending: modules that hand keys over. chooses: whether keys are chosen by others. by_slice: whether
    those modules ran with a mask of numbers. finished: modules that ran to their end. error: what ended
    the layer's run, or None.
    """

    replays = by_slice = chooses = False
    pack = Pack((Slice(0, 0, TOKENS),))
    error = None

    def __init__(self, layer):
        self._layer = layer
        self.updates = self.calls = 0
        self.mask, self.options = None, {}
        self.attending, self.finished = set(), set()
        self.running, self.mixers = [], []  # modules, the innermost last; and those that have states
        self.hands_over = 0  # tensors beside the hidden states that the next layer gets
        self.segment = self

    def update(self, key_1HTD, value_1HTD, layer):
        if layer == self._layer:
            self.updates += 1
            self.attending.add(self.running[-1])
        return key_1HTD, value_1HTD

    def update_indexer(self, key_1TD, layer):
        self.chooses |= layer == self._layer
        return key_1TD

    def of_slice(self, number):
        return self

    def mask_of(self, rule, like):
        self.mask = rule
        positions = torch.arange(TOKENS, device=like.device)
        return rule.tensor(positions, positions, like.dtype)

    def attend(self, module, layer, query_1HTD, key_1HTD, value_1HTD, mask, options):
        if layer == self._layer:
            self.calls += 1
            self.mask, self.options = mask, options
            self.chooses |= options.get("indices") is not None  # which the layer before has chosen
        shape = (1, query_1HTD.shape[2], query_1HTD.shape[1], value_1HTD.shape[3])
        return query_1HTD.new_zeros(shape)

    def enter(self, key):
        if self.running[-1] not in self.mixers:
            self.mixers.append(self.running[-1])

    def convolve(self, key, rows_1DT, size):
        return nn.functional.pad(rows_1DT, (max(size - rows_1DT.shape[-1], 0), 0))

    def leave(self, key, state):
        return state

    def sees_later_tokens(self):
        first, second = torch.arange(2, device="cpu").split(1)
        try:
            return self.mask is not None and bool(self.mask.sees(first, second))
        except RuntimeError:  # a rule that holds tensors of the meta device
            return False

    @contextlib.contextmanager
    def watching(self, layer, following):
        """Within it, notes which modules of the layer run, what it returns, and what of that the
        following layers get."""
        beside = []

        def begun(module, _):
            self.running.append(module)

        def ended(module, _, output):
            self.finished.add(self.running.pop())
            if module is layer and isinstance(output, tuple):
                beside.extend(value for value in output[1:]
                              if isinstance(value, torch.Tensor) and value.is_floating_point())

        def followed(_, args, kwargs):
            given = {id(value) for value in (*args, *kwargs.values())}
            self.hands_over = sum(id(value) in given for value in beside)

        hooks = [hook for module in layer.modules() for hook in (
            module.register_forward_pre_hook(begun), module.register_forward_hook(ended))]
        hooks += [next.register_forward_pre_hook(followed, with_kwargs=True) for next in following]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


def observe(model, layers, own, running, values):
    """Returns what is Observed of the layers in the range `own`.

    Runs on the meta device, too, where a layer may fail after its attention or without any (experts are
    chosen by values, which such tensors lack, and their products know few dtypes there). Modules that
    compute with the mask itself run slice by slice from then on (by_slice.py). values: of Skip.

    Raises InvalidInput for layers whose attention does not go through transformers' registry, or
    that keep more than keys, values and states.
    """
    looks = {i: _look(model, layers, i, running, values) for i in own}
    for i, look in looks.items():
        _require_usable(model, i, look)
    attending = {i: look for i, look in looks.items() if look.calls or look.by_slice}
    by_cache = any(look.updates for look in attending.values())
    for i, look in attending.items():
        if look.updates > 1:
            raise InvalidInput(
                f"layer {i} of {type(model).__name__} hands {look.updates} pairs of keys and "
                "values to its cache, this runtime carries one; train this model without a "
                "pipeline")
        if by_cache and not look.updates:
            raise InvalidInput(
                f"layer {i} of {type(model).__name__} uses the keys and values of another layer, "
                "which may lie on another stage; train this model without a pipeline")
    attention = Attention(by_cache, {i: _reach(look) for i, look in attending.items()})
    last = looks[max(own)]
    gathers = last.updates if by_cache else last.calls
    return Observed(attention, 0 if last.mixers or last.by_slice else gathers,
                    {i: look.mixers for i, look in looks.items() if look.mixers})


def _look(model, layers, own, running, values):
    """Runs one layer, slice by slice where it does not run otherwise."""
    look = _run(model, layers, own, running, values)
    if look.updates and (look.chooses or not look.calls):
        for module in look.attending:
            if not isinstance(module.forward, BySlice):
                module.forward = BySlice(module, running)
        attending, look = look.attending, _run(model, layers, own, running, values)
        look.by_slice = look.mask is not None and attending <= look.finished
    asks = look.calls or look.mixers or look.by_slice or mixes_no_tokens(model.config, own)
    if look.error is not None and not asks:
        raise _unusable(model, own, reason_of(model, look.error)) from look.error
    return look


def _run(model, layers, own, running, values):
    """The _LookingWork of one layer. Layers before whose choices it uses run, too."""
    mine, look = list(layers), _LookingWork(own)
    first = max(i for i in stage_begins(model.config.get_text_config()) if i <= own)
    for i in range(len(layers)):
        if not first <= i <= own:
            layers[i] = (End if i == own + 1 else Skip)(mine[i], values)
    running.work = look
    try:
        with torch.no_grad(), look.watching(mine[own], layers[own + 1:own + 2]):
            call_model(model, running)
    except Stopped:
        pass
    except Exception as error:  # the family's own code, of any kind
        look.error = error
    finally:
        running.work = None
        for i, layer in enumerate(mine):
            layers[i] = layer
    return look


def _require_usable(model, layer, look):
    attends = look.calls or look.by_slice
    if not (attends or look.mixers or mixes_no_tokens(model.config, layer)) or (
            look.updates and not attends):
        raise _unusable(model, layer, "its attention does not go through transformers' interface")
    if look.sees_later_tokens():
        raise _unusable(model, layer, "its tokens see later ones")
    if look.hands_over:
        raise InvalidInput(
            f"layers of {type(model).__name__} hand {look.hands_over + 1} tensors to the next layer, "
            "stages exchange the hidden states alone; train this model without a pipeline")


def _unusable(model, layer, reason):
    return InvalidInput(
        f"layer {layer} of {type(model).__name__} cannot run on slices: {reason}; train this model "
        "without a pipeline")


def _reach(look):
    if look.by_slice:  # its modules have all keys
        return Reach(None, False)
    if look.mask is None:
        return Reach(look.options.get("sliding_window"), True)
    try:
        return look.mask.reach()
    except (RuntimeError, IndexError):  # a rule that holds tensors of the meta device, or of these tokens
        return Reach(None, False)
