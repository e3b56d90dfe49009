"""Batches of whole documents, as heavy on every data-parallel rank, under a strict cap of tokens."""

import dataclasses
import functools
from typing import NamedTuple

import numpy as np
import torch

from slimpack import InvalidInput, _planner
from slimpack.balancing import costs_of, require_positive, require_under_cap
from slimpack.numbers import INT64, UINT64, whole
from slimpack.torch.epoch import StepRules, cut, with_total
from slimpack.torch.mixture import Mixture
from slimpack.torch.sampler_state import Rest, read_state, state_of

_AHEAD = ("a loader with workers or of accelerate draws batches ahead, the sampler cannot tell which ones the "
          "trainer got; take slimpack.torch.PackedDataLoader and its state_dict")
_SHARDED = ("SlimPackSampler gives every rank its own micro-batches already, accelerate would deal them out "
            "again; take slimpack.torch.PackedDataLoader, which accelerator.prepare leaves as it is")


@dataclasses.dataclass(frozen=True)
class Step:
    """documents: in the order in which they were drawn. of_rank: [rank][micro-batch], each an array of
    documents."""

    documents: np.ndarray
    of_rank: list


class Pass:
    """One iteration: it gives the Rest of an epoch, planned when it is first asked for."""

    def __init__(self, epoch, make_rest, *, loaded=False):
        self.epoch, self.loaded = epoch, loaded
        self._make_rest = make_rest

    @functools.cached_property
    def rest(self):
        return self._make_rest()


class Place(NamedTuple):
    """In a pass: so many steps were done, and so many micro-batches of the next one."""

    of_pass: Pass
    steps: int = 0
    micro_batches: int = 0

    def after(self):
        """The place a micro-batch later."""
        if self.micro_batches + 1 < self.of_pass.rest.cuts[self.steps].micro_batches:
            return self._replace(micro_batches=self.micro_batches + 1)
        return Place(self.of_pass, self.steps + 1)

    def at_end(self):
        return self.steps > 0 and self.steps == len(self.of_pass.rest.cuts)


class _Batch(list):
    """Documents of a micro-batch, which note when they are sent to another process."""

    def __init__(self, documents, sent):
        super().__init__(documents)
        self._sent = sent

    def __reduce__(self):
        self._sent.append(True)
        return list, (list(self),)


class SlimPackSampler(torch.utils.data.Sampler):
    """A batch sampler: gives this rank lists of document indices, one for each micro-batch.

    lengths: tokens of every document of the dataset; with weights or epochs a list of such lengths, one
        for each source. Documents of a source are then counted on from those of the sources before it,
        as in torch's ConcatDataset.
    weights: the share of each source in the tokens of an epoch, which has as many tokens as all sources
        together.
    epochs: instead of weights: how often each source comes in an epoch. 1.5 = each of its documents once,
        and half of them once more, the other half in the next epoch.
    max_tokens: no micro-batch holds more. A longer document is refused; split such documents first.
    ranks, rank: of the data-parallel group; by default those of torch.distributed.
    step_tokens: a step takes the next documents until they hold so many tokens, on all ranks together.
        All ranks then have the same number of micro-batches, as few as hold them.
    micro_batches: instead of step_tokens: a step has this many micro-batches on every rank and takes as
        many of the next documents as they hold with equal work. For trainers with a fixed number of
        gradient accumulation steps.
    cost: a slimpack.Job, whose costs of a forward and a backward pass count; or an array of costs of
        every document. By default the FLOPs of a 7B model.
    shuffle, seed: another order of the documents in each epoch; else that of the dataset.

    One iteration is an epoch: each document comes once on one of the ranks, in the same order for any
    number of ranks, and all ranks have the same number of micro-batches, the same in every epoch. Where a
    step has fewer documents than micro-batches, some are empty lists; PackedCollator makes a token
    without loss of such a one. The next iteration is the next epoch. One that is broken off begins again;
    `state_dict` goes on behind its last batch, with any number of ranks, also inside a step.

    Micro-batches of a rank are ordered by falling cost, so that those that run at the same time are
    alike. An epoch is planned when it begins: some seconds for a million documents.
    """

    def __init__(self, lengths, max_tokens, *, ranks=None, rank=None, step_tokens=None,
                 micro_batches=None, cost=None, shuffle=True, seed=0, weights=None, epochs=None):
        self.shuffle, self.seed = bool(shuffle), whole("seed", seed, 0, UINT64)
        self.mixture = Mixture.of(lengths, weights, epochs, self.seed)
        self.lengths = self.mixture.lengths
        self.ranks, self.rank = ranks_and_rank(ranks, rank)
        if (step_tokens is None) == (micro_batches is None):
            raise InvalidInput("give one of step_tokens and micro_batches, not both and not none")
        self.rules = StepRules(self.ranks, max_tokens, step_tokens, micro_batches)
        for name in ("max_tokens", "step_tokens", "micro_batches"):
            require_positive(name, getattr(self.rules, name))
        self.costs = costs_of(self.lengths, cost)
        require_under_cap(self.lengths, max_tokens, "max_tokens", "document")
        self.place = Place(self._whole(0))  # behind the last batch that was handed out
        self._sent = []  # not empty: batches of this iteration went to other processes
        self._accelerated = False  # accelerate's loader has one batch more than the trainer
        self._counted = False  # a PackedDataLoader says what the trainer has

    @property
    def epoch(self):
        """The epoch of the next batch."""
        return self.place.of_pass.epoch + self.place.at_end()

    @property
    def batch_sampler(self):
        """The sampler: transformers.Trainer calls set_epoch of a loader's batch_sampler.batch_sampler."""
        return self

    @property
    def batch_size(self):
        """Refused: it varies. accelerate asks for it before it deals out the batches of a sampler."""
        self._accelerated = True
        raise InvalidInput(_SHARDED)

    def order(self, epoch):
        """All documents of an epoch in their order."""
        drawn = self.mixture.drawn(epoch)
        if not self.shuffle:
            return drawn
        return drawn[np.random.default_rng([self.seed, epoch]).permutation(drawn.size)]

    def set_epoch(self, epoch):
        """Begins another epoch. In the sampler's own epoch it changes nothing, so a loaded place stays."""
        whole("the epoch", epoch, 0, INT64)
        if epoch < self.epoch and self.place == Place(self.place.of_pass) and self.place.of_pass.loaded:
            raise InvalidInput(f"set_epoch({epoch}) would forget the loaded state of epoch {self.epoch}; begin "
                               "the loop over epochs with the epoch of the sampler")
        if epoch != self.epoch:
            self.place = Place(self._whole(int(epoch)))

    def __iter__(self):
        """This rank's micro-batches to the end of the epoch."""
        self.place, self._sent, self._counted = self.begin(), [], False
        return self._batches(self.place, self._sent)

    def _batches(self, at, sent):
        for step in self._steps(at.of_pass):
            for documents in step.of_rank[self.rank]:
                at = at.after()
                self.place = at
                yield _Batch(documents.tolist(), sent)

    def __len__(self):
        """Micro-batches of this rank in the next iteration."""
        return _micro_batches(self.begin().of_pass.rest.cuts)

    def steps(self):
        """The Steps of the next iteration. Does not move the sampler on."""
        return self._steps(self.begin().of_pass)

    def begin(self):
        """The Place at which the next iteration begins."""
        if self.place.at_end():
            self.place = Place(self._whole(self.epoch))
        return Place(self.place.of_pass)

    def handed_out(self, at):
        """A loader that draws ahead says which Place the trainer has come to."""
        self.place, self._counted = at, True

    def state_dict(self):
        """Where the sampler is, for any number of ranks. Micro-batches that were handed out are done."""
        if (self._sent or self._accelerated) and not self._counted:
            raise InvalidInput(_AHEAD)
        at = self.begin() if self.place.at_end() else self.place
        rest, begun = at.of_pass.rest, None
        if at.micro_batches or (at.steps == 0 and rest.begun):
            begun = [batches[at.micro_batches:] for batches in self._step(rest, at.steps).of_rank]
        return state_of(self, at, begun)

    def load_state_dict(self, state):
        """Goes on where any rank's state was saved. Raises InvalidInput for one of other documents."""
        read = read_state(self, state)
        left = read.cuts or len(read.pending) or read.consumed < self.mixture.count
        epoch, planned = read.epoch, functools.partial(self._resumed, read)
        if not left:  # only micro-batches without documents, which other ranks do not need
            epoch, planned = read.epoch + 1, functools.partial(self._planned, read.epoch + 1)
        self.place = Place(Pass(epoch, planned, loaded=True))
        self._sent, self._accelerated = [], False

    def _whole(self, epoch):
        return Pass(epoch, functools.partial(self._planned, epoch))

    @functools.cached_property
    def _first(self):
        """(Cuts in the epoch's order, Cuts) of epoch 0, whose number of micro-batches all epochs have: that of
        the epoch with the most tokens, where so many can be filled."""
        cuts, heaviest = cut(self.lengths, self.order(0), self.rules), self.mixture.heaviest()
        if heaviest == 0:
            return len(cuts), cuts
        most = cut(self.lengths, self.order(heaviest), self.rules)
        total = max(_micro_batches(cuts), _micro_batches(most))
        return with_total(cuts, self.lengths, self.rules, total) or (len(cuts), cuts)

    def _planned(self, epoch):
        """The Rest of an epoch that has not begun."""
        stream, (ordered, cuts) = self.order(epoch), self._first
        if epoch == 0 or not (self.shuffle or self.mixture.varies):
            return Rest(cuts, ordered=ordered, stream=stream)
        found = with_total(cut(self.lengths, stream, self.rules), self.lengths, self.rules, _micro_batches(cuts))
        if found is None:
            order = np.random.default_rng([self.seed, epoch]).permutation(len(cuts))
            found = 0, [cuts[step] for step in order]
        return Rest(found[1], ordered=found[0], stream=stream)

    def _resumed(self, read):
        """The Rest of an epoch from a state."""
        stream = np.concatenate([read.pending, self.order(read.epoch)[read.consumed:]])
        cuts = cut(self.lengths, stream, self.rules)
        found = with_total(cuts, self.lengths, self.rules, read.micro_batches) if read.micro_batches else None
        ordered, cuts = found or (len(cuts), cuts)
        return Rest(read.cuts + cuts, given=len(read.cuts), ordered=ordered, stream=stream,
                    pending=len(read.pending), begun=read.begun)

    def _steps(self, of_pass):
        return (self._step(of_pass.rest, number) for number in range(len(of_pass.rest.cuts)))

    def _step(self, rest, number):
        documents, count = rest.cuts[number]
        if number == 0 and rest.begun:
            return Step(documents, rest.begun)
        # Finds room wherever best-fit-decreasing packs do, by which the step was cut.
        found = _planner.micro_batches(self.costs[documents], self.lengths[documents], self.ranks, count,
                                       self.rules.max_tokens)
        return Step(documents, [[documents[np.asarray(batch, dtype=np.int64)] for batch in of_rank]
                                for of_rank in found])


def _micro_batches(cuts):
    return sum(one.micro_batches for one in cuts)


def ranks_and_rank(ranks, rank):
    if ranks is None and rank is None and torch.distributed.is_initialized():
        return torch.distributed.get_world_size(), torch.distributed.get_rank()
    ranks, rank = 1 if ranks is None else ranks, rank or 0
    require_positive("ranks", ranks)
    return ranks, whole("rank", rank, 0, ranks - 1)
