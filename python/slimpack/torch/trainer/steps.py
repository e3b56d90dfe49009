"""Steps of a Trainer: so many documents each, as balanced micro-batches of every rank."""

import functools

import numpy as np
import torch

from slimpack import _planner
from slimpack.labelled import IGNORED
from slimpack.torch.epoch import packs


class Steps(torch.utils.data.Dataset):
    """Gives what this rank runs in a step: a dict of its `micro_batches`, of its `long` documents, of the
    `input_ids` and `labels` of all of these, by which Trainer counts tokens and targets, and of the numbers
    of the `documents` by rank, in the order of its micro-batches.

    A step takes the next documents of an epoch. All ranks have as many micro-batches in it, as few as
    hold its documents, of equal work. Where there are fewer documents than micro-batches, PackedCollator
    makes a token without loss of those without.

    documents: Documents. costs: of each. per_step: documents of a step, on all ranks together. seed: of
    another order in every epoch; None = the order of the dataset. long_from: documents of so many tokens are
    long ones, which take the place of a micro-batch each; None = there are none.
    """

    def __init__(self, documents, costs, *, per_step, max_tokens, ranks, rank, seed, long_from=None):
        self._is_long = documents.lengths >= (long_from or np.inf)
        self.documents, self._costs, self._seed = documents, costs, seed
        self._per_step, self._max_tokens, self._ranks, self._rank = per_step, max_tokens, ranks, rank
        self._order = functools.lru_cache(maxsize=1)(self._order_of)

    def __len__(self):
        """Documents, which Trainer calls examples."""
        return len(self.documents)

    @property
    def count(self):
        """Steps of an epoch."""
        return -(-len(self.documents) // self._per_step)

    def __getitem__(self, key):
        """key: (epoch, step of the epoch)."""
        by_rank = self.by_rank(*key)
        numbers = by_rank[self._rank]
        packs_of_ranks = [[batch for batch in of_rank if not self._is_long[batch].any()] for of_rank in by_rank]
        count = max(1, *map(len, packs_of_ranks))  # the same on every rank, as their messages are
        own = packs_of_ranks[self._rank]
        batches = [self.documents.pack(of_batch) for of_batch in own]
        long = [self.documents.pack([number]) for number in np.concatenate(numbers) if self._is_long[number]]
        held = long + [batch for batch, of_batch in zip(batches, own, strict=True) if len(of_batch)]
        return {"micro_batches": batches + [self.documents.pack([])] * (count - len(batches)), "long": long,
                "input_ids": _joined([batch["input_ids"] for batch in held]),
                "labels": _joined([batch["labels"] for batch in held]),
                "documents": [np.concatenate(of_rank).tolist() for of_rank in by_rank]}

    def by_rank(self, epoch, step):
        """[rank][micro-batch]: numbers of documents. A long one is alone."""
        chosen = self._order(epoch)[step * self._per_step:(step + 1) * self._per_step]
        lengths = np.where(self._is_long[chosen], self._max_tokens, self.documents.lengths[chosen])
        count = -(-len(packs(lengths, self._max_tokens)) // self._ranks)
        found = _planner.micro_batches(self._costs[chosen], lengths, self._ranks, count, self._max_tokens)
        return [[chosen[np.asarray(batch, np.int64)] for batch in of_rank] for of_rank in found]

    def _order_of(self, epoch):
        if self._seed is None:
            return np.arange(len(self.documents))
        return np.random.default_rng([self._seed, epoch]).permutation(len(self.documents))

    def __getstate__(self):
        return self.__dict__ | {"_order": None}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._order = functools.lru_cache(maxsize=1)(self._order_of)


def costs_of_model(model, lengths):
    """By document a number in proportion to the FLOPs of a pass: those of its tokens, by the model's
    parameters, and those of its pairs of tokens."""
    text = model.config.get_text_config()
    head = model.get_output_embeddings()
    parameters = model.num_parameters(exclude_embeddings=True) + (head.weight.numel() if head is not None else 0)
    tokens_of_a_pair = parameters / (2 * text.num_hidden_layers * text.hidden_size)
    return np.ascontiguousarray(tokens_of_a_pair * lengths + lengths.astype(np.float64) ** 2)


def _joined(tensors):
    return torch.cat(tensors, 1) if tensors else torch.full((1, 0), IGNORED)


class StepNumbers(torch.utils.data.Sampler):
    """A batch sampler whose batches are single steps, so that skipping some costs nothing."""

    def __init__(self, count):
        self._count, self._epoch = count, 0

    @property
    def batch_sampler(self):
        """The sampler: Trainer calls set_epoch of a loader's batch_sampler.batch_sampler."""
        return self

    def set_epoch(self, epoch):
        self._epoch = int(epoch)

    def __len__(self):
        return self._count

    def __iter__(self):
        return ([(self._epoch, step)] for step in range(self._count))


def loader_of(steps, args):
    """A DataLoader with an item for each of Steps, by the settings of TrainingArguments."""
    return torch.utils.data.DataLoader(
        steps, batch_sampler=StepNumbers(steps.count), collate_fn=_only, num_workers=args.dataloader_num_workers,
        pin_memory=args.dataloader_pin_memory, prefetch_factor=args.dataloader_prefetch_factor,
        persistent_workers=args.dataloader_persistent_workers,
        multiprocessing_context=args.dataloader_multiprocessing_context)


def _only(items):
    """The item of a batch of one."""
    (item,) = items
    return item
