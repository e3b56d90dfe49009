"""The work of a stage's layers: one MicroPack in one pass."""

import torch

from slimpack.torch.pipeline.packs import BACKWARD, FORWARD, Pack
from slimpack.torch.pipeline.parts import parts_of
from slimpack.torch.pipeline.states import States
from slimpack.torch.pipeline.token_rows import TokenRows, accumulator_dtype


class Stopped(Exception):
    """The stage's layers have run as far as this pass needs them. hidden_1TD is None where nothing
    of them is needed."""

    def __init__(self, hidden_1TD):
        super().__init__()
        self.hidden_1TD = hidden_1TD


class KeyValues:
    """Keys and values of a stage's sequences, and their gradients, where slices of a step need
    them; and the States of its layers that have states instead.

    All are freed as soon as no slice needs them any more.
    """

    def __init__(self, stage_plan, windows, memories):
        self.lengths = stage_plan.lengths()
        begins, memory_of = stage_plan.begins, memories.of_layer
        self.rows = TokenRows(begins(["forward", "backward"]), windows, memory_of)
        self.gradients = TokenRows(begins(["backward"]), windows, memory_of)
        self.states = States(stage_plan, memories)
        again = [pack for number, pack in enumerate(stage_plan.backward)
                 if number not in stage_plan.kept]
        self._elementwise = stage_plan.elementwise
        # Layers that keep everything read prefixes once for a kept graph, others again in backward.
        self._last_reads = {False: _last_reads(stage_plan.forward, again),
                            True: _last_reads(stage_plan.forward, stage_plan.backward)}

    def is_last_read(self, passes, part, layer):
        last = self._last_reads[layer in self._elementwise].get(part.sequence)
        return last == (passes, part.begin)

    def is_needed(self, part):
        """Whether some later slice has tokens of this one in its prefix."""
        return self.rows.last_begin(part.sequence) > part.begin

    def release(self, passes, part):
        """Releases keys, values and states as reading does, for a slice that does not read them."""
        self.states.release(passes, part)
        self.rows.drop_sequence(part.sequence,
                                lambda layer: self.is_last_read(passes, part, layer))


def _last_reads(forward, backward):
    """By sequence: pass and begin of the last slice in these packs that reads a prefix."""
    last = {}
    for passes, packs in ((FORWARD, forward), (BACKWARD, backward)):
        for part in (part for pack in packs for part in pack.slices if part.begin > 0):
            last[part.sequence] = passes, part.begin
    return last


class SliceWork:
    """Runs the attention of a stage's layers on the slices of a Pack.

    forward: whether this pass stores keys and values; a backward pass only reads them.
    stop_at: the layer whose keys and values are the last thing this pass needs, or None.
    elementwise: layers whose graph is to lack what needs no matrix product.
    replays: whether layers run again for a graph that was kept.
    segment: the Segment that a mixer runs on now.
    whole: the WholeDocuments of a stage whose layers have states, or None.
    """

    def __init__(self, pack, key_values, attention, *, forward, stop_at=None,
                 elementwise=frozenset(), replays=False):
        self.pack, self.key_values, self.attention = pack, key_values, attention
        self.forward, self.stop_at = forward, stop_at
        self.elementwise, self.replays = elementwise, replays
        self.segment = self.whole = None
        self._parts = {}  # by window
        self._calls = {}  # by layer, where attention gathers
        self._alone = {}  # by number of a slice

    def of_slice(self, number):
        """The work of one of the pack's slices by itself."""
        if number not in self._alone:
            self._alone[number] = SliceWork(Pack((self.pack.slices[number],)), self.key_values,
                                            self.attention, forward=self.forward)
        return self._alone[number]

    def mask_of(self, rule, like):
        """The mask of a pack of one slice as a tensor, on the device and for the dtype of `like`."""
        part, = self.pack.slices
        positions = torch.arange(part.end, device=like.device)
        return rule.tensor(positions[part.begin:], positions, like.dtype)

    def parts(self, layer):
        window = self.attention.windows[layer]
        if window not in self._parts:
            self._parts[window] = parts_of(self.pack, window)
        return self._parts[window]

    def prepare(self, device):
        """Makes what its layers share, so that none makes it for all: a layer under a selective
        checkpoint has to run the same operations again in backward."""
        for layer in self.attention.windows:
            self.parts(layer).bounds(device)

    def update(self, key_1HTD, value_1HTD, layer):
        """Returns what a cache returns: keys and values of all tokens that the slices' tokens see,
        slice after slice, [1, H, tokens, D]."""
        if not self.attention.by_cache:
            return key_1HTD, value_1HTD
        return self._gather(key_1HTD, value_1HTD, layer, 0)

    def update_indexer(self, key_1TD, layer):
        """Returns what a cache returns of the keys that tokens are chosen by: those of all tokens that
        the slices' tokens see. They have no gradient, as transformers computes them without one."""
        if not self._shares(layer):
            return key_1TD
        return self.gather((layer, 0, "i"), key_1TD.detach()[:, None])[:, 0]

    def attend(self, module, layer, query_1HTD, key_1HTD, value_1HTD, mask, options):
        """Returns what an attention function of transformers returns: [1, T, H, D]."""
        if not self.attention.by_cache:
            call = self._calls[layer] = self._calls.get(layer, 0) + 1
            key_1HTD, value_1HTD = self._gather(key_1HTD, value_1HTD, layer, call)
        return self.attention.run(module, layer, self.parts(layer), query_1HTD, key_1HTD,
                                  value_1HTD, mask, options)

    def _gather(self, key_1HTD, value_1HTD, layer, call):
        gathered = [Gather.apply(own, self, (layer, call, name)) if self._shares(layer) else own
                    for name, own in (("k", key_1HTD), ("v", value_1HTD))]
        if layer == self.stop_at:
            raise Stopped(None)
        return gathered

    def _shares(self, layer):
        """Whether some slice of the pack has a prefix, or is in the prefix of another slice."""
        kept = self.key_values.rows
        return any(kept.last_begin(part.sequence) > 0 for part in self.parts(layer))

    def gather(self, key, own_1HTD):
        rows, parts = self.key_values.rows, self.parts(key[0])
        _, heads, _, width = own_1HTD.shape
        tokens = sum(part.end - part.first_key for part in parts)
        gathered = own_1HTD.new_empty((1, heads, tokens, width))
        for part in parts:
            own_HTD = own_1HTD[0, :, part.query_row:part.query_row + part.end - part.begin]
            if self.forward:
                rows.put(key, part.sequence, part.begin, own_HTD)
            own_row, end = (part.key_row + token - part.first_key for token in (part.begin, part.end))
            if part.first_key < part.begin:
                rows.read(key, part.sequence, part.first_key, gathered[0, :, part.key_row:own_row])
            gathered[0, :, own_row:end] = own_HTD
        for part in self.parts(key[0]):
            passes = FORWARD if self.forward else BACKWARD
            if self.key_values.is_last_read(passes, part, key[0]):
                rows.drop(key, part.sequence)
        return gathered

    def scatter(self, key, grad_1HTD):
        """Leaves prefix rows of the gathered keys' gradient to earlier slices, and returns that of
        own rows, with what later slices have left."""
        gradients, pieces = self.key_values.gradients, []
        dtype = accumulator_dtype(grad_1HTD.dtype)
        for part in self.parts(key[0]):
            own_row = part.key_row + part.begin - part.first_key
            if own_row > part.key_row:
                gradients.add(key, part.sequence, part.first_key,
                              grad_1HTD[0, :, part.key_row:own_row], dtype)
            own_HTD = grad_1HTD[0, :, own_row:own_row + part.end - part.begin]
            pieces.append(gradients.added_to(key, part.sequence, part.begin, own_HTD))
            if part.begin == 0:
                gradients.drop(key, part.sequence)
        return torch.cat(pieces, 1)[None]


class Gather(torch.autograd.Function):
    """Own keys or values of a pack to those of all tokens that its slices see.

    Keys of a prefix come from the store; their gradient goes to an accumulator of the sequence, and
    own tokens take what later slices have left there. Backward passes run a sequence's slices from
    the last to the first.
    """

    @staticmethod
    def forward(ctx, own_1HTD, work, key):
        ctx.work, ctx.key = work, key
        return work.gather(key, own_1HTD)

    @staticmethod
    def backward(ctx, grad_1HTD):
        return ctx.work.scatter(ctx.key, grad_1HTD), None, None
