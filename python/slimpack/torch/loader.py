"""A DataLoader over SlimPackSampler that knows which batches the trainer got."""

import torch

from slimpack import InvalidInput
from slimpack.labelled import IGNORED
from slimpack.torch.collator import PackedCollator
from slimpack.torch.sampler import SlimPackSampler


class PackedDataLoader(torch.utils.data.DataLoader):
    """torch's DataLoader over a SlimPackSampler, for own loops, transformers.Trainer, TRL and accelerate.

    dataset: has the documents whose lengths the sampler was given; each item has "input_ids".
    collate_fn: PackedCollator() by default.
    options: those of torch's DataLoader, such as num_workers, prefetch_factor and pin_memory.

    `state_dict` counts the batches that the loader gave, not those that workers drew ahead.
    `accelerator.prepare` leaves the loader as it is, since each rank has its own batches; it moves no
    batch to a device. A micro-batch without documents has the shortest document with every label -100, if
    the collator is not a PackedCollator.
    """

    _is_accelerate_prepared = True

    def __init__(self, dataset, sampler, *, collate_fn=None, **options):
        if not isinstance(sampler, SlimPackSampler):
            raise InvalidInput(f"the sampler is a {type(sampler).__name__}, must be a SlimPackSampler; give "
                               "one, or take torch's DataLoader")
        count = len(dataset) if hasattr(dataset, "__len__") else "no number of"
        if count != sampler.lengths.size:
            raise InvalidInput(f"the dataset has {count} documents, the sampler has {sampler.lengths.size} "
                               "lengths; give one length for each document")
        if not options.get("in_order", True):
            raise InvalidInput("in_order is False, then no state could tell which documents were trained; "
                               "leave it out")
        if collate_fn is None:
            collate_fn = PackedCollator()
        if not isinstance(collate_fn, PackedCollator):
            collate_fn = _WithFillers(collate_fn, dataset, int(sampler.lengths.argmin()))
        super().__init__(dataset, batch_sampler=sampler, collate_fn=collate_fn, **options)

    def __iter__(self):
        begin = self.batch_sampler.begin()
        batches = super().__iter__()  # with workers draws ahead
        self.batch_sampler.handed_out(begin)
        return self._counted(batches, begin)

    def _counted(self, batches, at):
        for batch in batches:
            at = at.after()
            self.batch_sampler.handed_out(at)
            yield batch

    def set_epoch(self, epoch):
        self.batch_sampler.set_epoch(epoch)

    def state_dict(self):
        """Where the trainer is, as SlimPackSampler.state_dict has it."""
        return self.batch_sampler.state_dict()

    def load_state_dict(self, state):
        self.batch_sampler.load_state_dict(state)


class _WithFillers:
    """A collator that gives a document without labels for a micro-batch without documents."""

    def __init__(self, collate, dataset, shortest):
        self._collate, self._dataset, self._shortest = collate, dataset, shortest

    def __call__(self, documents):
        if documents:
            return self._collate(documents)
        batch = self._collate([self._dataset[self._shortest]])
        if "labels" not in batch:
            raise InvalidInput("a micro-batch has no documents and the collator gives no labels, so its loss "
                               "would count; give a collate_fn that gives labels")
        batch["labels"] = torch.full_like(batch["labels"], IGNORED)
        return batch
