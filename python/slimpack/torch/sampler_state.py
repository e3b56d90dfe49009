"""The state of a SlimPackSampler: plain numbers and lists, the same on every rank."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from slimpack import InvalidInput
from slimpack.torch.epoch import Cut

VERSION = 2
_PLACE = ("epoch", "consumed", "pending", "steps", "step_micro_batches", "begun", "micro_batches_left", "rules")


class Rest:
    """The Cuts that are left of an epoch: those that a state gave, then those of a stream of documents. The
    first `ordered` of the stream's Cuts take its documents one after another."""

    def __init__(self, cuts, *, given=0, ordered=None, stream=(), pending=0, begun=None):
        self.cuts = cuts
        self.begun = begun  # the micro-batches of the first Cut by rank; None: it is not balanced yet
        self._given, self._ordered = given, given + (len(cuts) - given if ordered is None else ordered)
        self._stream, self._pending = stream, pending  # documents of the stream before the epoch's order

    def behind(self, steps):
        """The rest that comes behind so many steps: (Cuts to list, documents before the epoch's order, number
        of documents of the order)."""
        taken = len(self._stream)
        if steps < self._ordered:
            taken = sum(len(one.documents) for one in self.cuts[self._given:steps])
        cuts = self.cuts[steps:] if steps >= self._ordered else self.cuts[steps:self._given]
        return cuts, self._stream[taken:self._pending], len(self._stream) - max(taken, self._pending)


@dataclasses.dataclass(frozen=True)
class Read:
    """A state, for the rules of the sampler that read it."""

    epoch: int
    cuts: list
    begun: list | None
    pending: np.ndarray  # documents that come before what is left of the epoch's order
    consumed: int
    micro_batches: int | None  # of pending and the order; None: as many as they take


def state_of(sampler, at, begun):
    """The state at a Place. begun: what is left of the step that the place is in, by rank, or None."""
    rest = at.of_pass.rest
    cuts, pending, ordered = rest.behind(at.steps + (begun is not None))
    if begun is not None:
        cuts = [Cut(_documents(begun), len(begun[0])), *cuts]
    done = sum(one.micro_batches for one in rest.cuts[:at.steps]) + at.micro_batches
    return {"version": VERSION, **_identity(sampler), "epoch": at.of_pass.epoch,
            "consumed": sampler.mixture.count - ordered, "pending": _plain(pending),
            "steps": [_plain(one.documents) for one in cuts],
            "step_micro_batches": [one.micro_batches for one in cuts],
            "begun": [[_plain(batch) for batch in of_rank] for of_rank in begun or []],
            "micro_batches_left": sum(one.micro_batches for one in rest.cuts) - done,
            "rules": dataclasses.asdict(sampler.rules)}


def read_state(sampler, state):
    """Raises InvalidInput for what is no state of the sampler's documents."""
    version = state.get("version") if isinstance(state, Mapping) else None
    if version != VERSION:
        raise InvalidInput(f"the sampler's state has version {version!r}, must be {VERSION}; take the slimpack "
                           "that wrote it, or begin the epoch again")
    identity = _identity(sampler)
    for name in (*identity, *_PLACE):
        if name not in state and name != "epochs":  # which older versions did not write
            raise InvalidInput(f"the sampler's state has no entry {name!r}; give what state_dict returned")
    for name, here in identity.items():
        if state.get(name, [1.0]) != here:
            raise InvalidInput(f"the sampler's state is of {name} {state.get(name)}, here it is {here}; go on "
                               "with the same dataset, seed, shuffle, weights and epochs")
    cuts = [Cut(_array(documents), micro_batches) for documents, micro_batches
            in zip(state["steps"], state["step_micro_batches"], strict=True)]
    pending, begun, left = _array(state["pending"]), None, None
    if dict(state["rules"]) == dataclasses.asdict(sampler.rules):
        begun = [[_array(batch) for batch in of_rank] for of_rank in state["begun"]] or None
        left = state["micro_batches_left"] - sum(one.micro_batches for one in cuts)
    else:
        pending, cuts = np.concatenate([*(one.documents for one in cuts), pending]), []
    return Read(state["epoch"], cuts, begun, pending, state["consumed"], left)


def _identity(sampler):
    """The values that a state and its sampler must agree on."""
    return {"documents": int(sampler.lengths.size), "tokens": int(sampler.lengths.sum()),
            "seed": sampler.seed, "shuffle": sampler.shuffle, "epochs": list(sampler.mixture.epochs)}


def _documents(of_rank):
    return np.concatenate([batch for batches in of_rank for batch in batches])


def _array(documents):
    return np.array(documents, dtype=np.int64)


def _plain(documents):
    return [int(document) for document in documents]
