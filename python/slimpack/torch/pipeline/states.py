"""States of layers that hand one from token to token instead of keeping keys: recurrent states and
the last inputs of convolutions.

A pass leaves a state wherever a later slice begins, of either pass:

    forward               the mixer runs from cut to cut and leaves its states at each
    backward, [a, b)      Enter(state at a) -> mixer -> rows and state at b -> Attach(rows, state at b)

Enter's backward leaves the gradient of the state at a for the earlier slice, as Gather leaves those
of keys; Attach's backward gives the state at b what the later slice has left.
"""

import itertools

import torch
from torch.nn import functional

from slimpack.torch.pipeline.packs import BACKWARD
from slimpack.torch.pipeline.token_rows import accumulator_dtype

CONVOLUTION, RECURRENT = "convolution", "recurrent"


class States:
    """States of a stage's sequences where later slices begin, and their gradients, in the memories
    of their layers (memory.py).

    A key is (layer, kind, index of the state), a place (key, sequence, position). States are dropped
    when they are read for the last time, gradients when they are taken.
    """

    def __init__(self, stage_plan, memories):
        self._memory_of = memories.of_layer
        self._begins = stage_plan.begins(["forward", "backward"])
        self._backward_begins = stage_plan.begins(["backward"])
        again = [pack for number, pack in enumerate(stage_plan.backward)
                 if number not in stage_plan.kept]
        self._elementwise = stage_plan.elementwise
        # Layers that keep everything read states once for a kept graph, others again in backward.
        self._read_backward = {False: _begins(again), True: _begins(stage_plan.backward)}
        self._states, self._gradients = {}, {}

    def pieces(self, part, forward):
        """(begin, end) of the pieces of a slice on which a mixer runs one after another: a forward
        pass leaves a state at each cut of the backward passes."""
        cuts = self._backward_begins.get(part.sequence, ()) if forward else ()
        inside = [cut for cut in cuts if part.begin < cut < part.end]
        return list(itertools.pairwise([part.begin, *inside, part.end]))

    def is_whole(self, part, forward):
        """Whether a mixer runs on a slice as on a document by itself: no state enters, and none is
        left."""
        return (part.begin == 0 and len(self.pieces(part, forward)) == 1
                and not self.are_needed(part.sequence, part.end))

    def are_needed(self, sequence, position):
        """Whether some slice of the sequence begins at that position."""
        return position in self._begins.get(sequence, ())

    def elements(self, kind):
        """The elements of all states of a kind that are kept now."""
        return sum(state.numel() for ((_, of, _), *_), state in self._states.items() if of == kind)

    def put(self, place, state):
        """Keeps a copy of a state."""
        _keep(self._states, place, state.detach().clone(), self._memory(place))

    def read(self, passes, place, device):
        """A state, into which the caller must not write."""
        memory = self._memory(place)
        state = memory.fetch(self._states[place], device)
        if self._is_last_read(passes, place):
            _drop(self._states, place, memory)
        return state

    def leave_gradient(self, place, gradient):
        """Keeps the gradient of the state that a slice has read, fp32 or wider."""
        wide = gradient.to(accumulator_dtype(gradient.dtype))
        _keep(self._gradients, place, wide, self._memory(place))

    def take_gradient(self, place, device):
        """Returns what leave_gradient kept; None where the later slice's rows do not depend on the
        state."""
        if place not in self._gradients:
            return None
        memory = self._memory(place)
        return memory.fetch(_drop(self._gradients, place, memory), device)

    def release(self, passes, part):
        """Drops states as reading does, for a slice that does not read them."""
        for place in [place for place in self._states if place[1:] == (part.sequence, part.begin)]:
            if self._is_last_read(passes, place):
                _drop(self._states, place, self._memory(place))

    def _is_last_read(self, passes, place):
        (layer, *_), sequence, position = place
        later = self._read_backward[layer in self._elementwise]
        return passes == BACKWARD or (sequence, position) not in later

    def _memory(self, place):
        return self._memory_of(place[0][0])


def _begins(packs):
    return {(part.sequence, part.begin) for pack in packs for part in pack.slices if part.begin > 0}


def _keep(where, place, tensor, memory):
    where[place] = memory.keep(tensor)
    memory.meter.add(where[place].nbytes)


def _drop(where, place, memory):
    kept = where.pop(place)
    memory.meter.add(-kept.nbytes)
    return kept


class Segment:
    """The tokens [begin, end) of a sequence on which a mixer runs, from states to states.

    passes: FORWARD where states are left for later slices, else BACKWARD.
    trained: whether a graph needs gradients of states.
    device: of the rows.
    withhold: whether scans get recurrent states from here instead of the mixer (scans.py).
    withheld: the one that the next scan gets.
    leaves: whether some slice needs the states after the tokens.
    """

    def __init__(self, states, passes, span, device, *, trained, withhold):
        self._states, self._passes, self._trained = states, passes, trained
        self.sequence, self.begin, self.end = span
        self._device, self._withhold = device, withhold
        self._entered, self._left = {}, {}
        self.withheld = None
        self.leaves = states.are_needed(self.sequence, self.end)

    def enter(self, key):
        """The state before the tokens, for the mixer. None at a sequence's begin, and where the scan or
        the convolution gets it: with a state the mixer would take one token for generating."""
        if self.begin == 0 or key[1] == CONVOLUTION:
            return None
        if self._withhold:
            self.withheld = self._before(key)
            return None
        return self._before(key)

    def convolve(self, key, rows_1DT, size):
        """Takes a convolution's inputs. Returns them with those before, at least `size` of them."""
        if self.begin == 0:
            rows_1DT = functional.pad(rows_1DT, (max(size - rows_1DT.shape[-1], 0), 0))
        else:
            rows_1DT = torch.cat([self._before(key), rows_1DT], -1)
        self._left[key] = rows_1DT[..., -size:]
        return rows_1DT

    def leave(self, key, state):
        self._left[key] = state
        return state

    def _before(self, key):
        """The kept state, which a mixer may write into."""
        if key not in self._entered:
            place = key, self.sequence, self.begin
            state = self._states.read(self._passes, place, self._device)
            if self._trained:
                self._entered[key] = Enter.apply(state.requires_grad_(), self._states, place)
            else:
                self._entered[key] = state.clone()
        return self._entered[key]

    def finish(self, rows_1TD):
        """Keeps the states after the tokens for later slices. Returns the tokens' rows, whose
        gradient brings that of the states along."""
        if not self.leaves:
            return rows_1TD
        left = self._entered | self._left  # what was read and not left was written in place
        places = [(key, self.sequence, self.end) for key in left]
        if self._passes != BACKWARD:
            for place, state in zip(places, left.values(), strict=True):
                self._states.put(place, state)
        if self._trained:
            rows_1TD = Attach.apply(self._states, places, rows_1TD, *left.values())
        return rows_1TD


class Enter(torch.autograd.Function):
    """A kept state, for the graph of the slice that begins there. Backward leaves its gradient."""

    @staticmethod
    def forward(ctx, state, states, place):
        ctx.states, ctx.place = states, place
        return state.clone()

    @staticmethod
    def backward(ctx, gradient):
        ctx.states.leave_gradient(ctx.place, gradient)
        return None, None, None


class Attach(torch.autograd.Function):
    """A slice's rows as they are. Backward gives the states after it the gradients that the later
    slice has left."""

    @staticmethod
    def forward(ctx, states, places, rows_1TD, *left):
        ctx.states, ctx.places, ctx.dtypes = states, places, [state.dtype for state in left]
        return rows_1TD.view_as(rows_1TD)

    @staticmethod
    def backward(ctx, gradient_1TD):
        of_states = []
        for place, dtype in zip(ctx.places, ctx.dtypes, strict=True):
            gradient = ctx.states.take_gradient(place, gradient_1TD.device)
            of_states.append(None if gradient is None else gradient.to(dtype))
        return None, None, gradient_1TD, *of_states
