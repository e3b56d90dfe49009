"""Batches of whole documents, as heavy on every data-parallel rank, under a strict cap of tokens."""

import copy
import dataclasses

import numpy as np
import torch

from slimpack import InvalidInput, _planner
from slimpack.balancing import costs_of, require_positive, require_under_cap
from slimpack.lengths import as_lengths

VERSION = 1


@dataclasses.dataclass(frozen=True)
class Step:
    """documents: in the order in which they were drawn. of_rank: [rank][micro-batch], each an array of
    documents."""

    documents: np.ndarray
    of_rank: list


class SlimPackSampler(torch.utils.data.Sampler):
    """A batch sampler: gives this rank lists of document indices, one for each micro-batch.

    lengths: tokens of every document of the dataset.
    max_tokens: no micro-batch holds more. A longer document is refused; split such documents first.
    ranks, rank: of the data-parallel group; by default those of torch.distributed.
    step_tokens: a step takes the next documents until they hold so many tokens, on all ranks together.
        All ranks then have the same number of micro-batches, as few as hold them.
    micro_batches: instead of step_tokens: a step has this many micro-batches on every rank and takes as
        many of the next documents as they hold with equal work.
    cost: a slimpack.Job, whose costs of a forward and a backward pass count; or an array of costs of
        every document. By default the FLOPs of a 7B model.
    shuffle, seed: another order of the documents in each epoch; else that of the dataset.

    Documents come in the same order for any number of ranks, and each one once an epoch; fewer than
    `ranks` documents at the end of an epoch are the first ones of the next. `state_dict` goes on with
    any number of ranks, also inside a step. Micro-batches of a rank are ordered by falling cost, so
    that those that run at the same time are alike.
    """

    def __init__(self, lengths, max_tokens, *, ranks=None, rank=None, step_tokens=None,
                 micro_batches=None, cost=None, shuffle=True, seed=0):
        self.lengths = as_lengths(lengths)
        self.max_tokens = max_tokens
        self.ranks, self.rank = place(ranks, rank)
        if (step_tokens is None) == (micro_batches is None):
            raise InvalidInput("give one of step_tokens and micro_batches, not both and not none")
        self.step_tokens, self.micro_batches = step_tokens, micro_batches
        for name in ("max_tokens", "step_tokens", "micro_batches"):
            require_positive(name, getattr(self, name))
        self.costs = costs_of(self.lengths, cost)
        self.shuffle, self.seed = shuffle, seed
        self.epoch = 0
        self._order = (None, None)  # an epoch, and its order
        self._consumed = 0  # documents of the epoch's order
        self._pending = np.empty(0, dtype=np.int64)  # documents that come before the others
        require_under_cap(self.lengths, max_tokens, "max_tokens", "document")

    def order(self, epoch):
        """All documents in the order of an epoch."""
        if not self.shuffle:
            return np.arange(self.lengths.size)
        return np.random.default_rng([self.seed, epoch]).permutation(self.lengths.size)

    def set_epoch(self, epoch):
        """Begins another epoch. Documents that the epoch before has left over stay the first ones."""
        if epoch != self.epoch:
            self.epoch, self._consumed = epoch, 0

    def __iter__(self):
        """This rank's micro-batches to the end of the epoch."""
        epoch = self.epoch
        while self.epoch == epoch and (step := self._next_step()) is not None:
            rest, documents = self._pending, step.documents
            for k, batch in enumerate(step.of_rank[self.rank]):
                done = np.concatenate([b for of_rank in step.of_rank for b in of_rank[:k + 1]])
                self._pending = np.concatenate([documents[~np.isin(documents, done)], rest])
                yield batch.tolist()

    def __len__(self):
        """Micro-batches of this rank to the end of the epoch. Plans all of them."""
        return sum(len(step.of_rank[self.rank]) for step in self.steps())

    def steps(self):
        """The Steps to the end of the epoch. Does not move the sampler on."""
        other = copy.copy(self)
        while (step := other._next_step()) is not None:
            yield step

    def _next_step(self):
        """Takes the next documents. None: the epoch has ended, and the next one begins."""
        if self._order[0] != self.epoch:
            self._order = (self.epoch, self.order(self.epoch))
        stream = np.concatenate([self._pending, self._order[1][self._consumed:]])
        if len(stream) < self.ranks:
            self.epoch, self._consumed, self._pending = self.epoch + 1, 0, stream
            return None
        step = self._balanced(stream)
        taken = len(step.documents)
        self._consumed += max(taken - len(self._pending), 0)
        self._pending = self._pending[taken:]
        return step

    def _balanced(self, stream):
        """A step of the first documents of the stream."""
        tokens = self.lengths[stream].cumsum()
        wanted = self.step_tokens or self.micro_batches * self.max_tokens * self.ranks
        count = int(np.searchsorted(tokens, wanted)) + (1 if self.step_tokens else 0)
        count = min(max(count, self.ranks), len(stream))
        while True:
            least = -(-int(tokens[count - 1]) // (self.max_tokens * self.ranks))
            for per_rank in self._sizes(least, count):
                step = self._packed(stream[:count], per_rank)
                if step is not None:
                    return step
            # One document for each rank always fits.
            count = max(count - max(count // 32, 1), self.ranks)

    def _sizes(self, least, count):
        """Numbers of micro-batches of a rank to try for so many documents."""
        most = count // self.ranks
        if self.step_tokens:
            return range(least, min(most, 2 * least) + 1)
        return [min(self.micro_batches, most)] if least <= self.micro_batches else []

    def _packed(self, documents, per_rank):
        found = _planner.micro_batches(self.costs[documents], self.lengths[documents], self.ranks,
                                       per_rank, self.max_tokens)
        if found is None:
            return None
        return Step(documents, [[documents[batch] for batch in of_rank] for of_rank in found])

    def state_dict(self):
        """Where the sampler is, for any number of ranks. Micro-batches that were handed out are done."""
        return {"version": VERSION, "documents": int(self.lengths.size), "seed": self.seed,
                "shuffle": self.shuffle, "epoch": self.epoch, "consumed": self._consumed,
                "pending": self._pending.tolist()}

    def load_state_dict(self, state):
        if state.get("version") != VERSION:
            raise InvalidInput(f"the sampler's state has version {state.get('version')!r}, must be {VERSION}; "
                               "take the slimpack that wrote it")
        for name, here in (("documents", int(self.lengths.size)), ("seed", self.seed),
                           ("shuffle", self.shuffle)):
            if state[name] != here:
                raise InvalidInput(f"the sampler's state is of {name} {state[name]}, here it is {here}; go on "
                                   "with the same dataset, seed and shuffle")
        self.epoch, self._consumed = state["epoch"], state["consumed"]
        self._pending = np.array(state["pending"], dtype=np.int64)


def place(ranks, rank):
    if ranks is None and rank is None and torch.distributed.is_initialized():
        return torch.distributed.get_world_size(), torch.distributed.get_rank()
    ranks, rank = 1 if ranks is None else ranks, rank or 0
    require_positive("ranks", ranks)
    if not 0 <= rank < ranks:
        raise InvalidInput(f"rank is {rank}, must be from 0 to {ranks - 1}")
    return ranks, rank
