"""The documents of a trainer's dataset: their lengths, and what the trainer's collator makes of each."""

import numpy as np
import torch

from slimpack import InvalidInput
from slimpack.text.errors import listed
from slimpack.torch.collator import LOSS_MASKS, PackedCollator
from slimpack.torch.dataset_source import from_dataset

_READ = ("input_ids", "labels", "attention_mask", *LOSS_MASKS)


class Documents:
    """Documents by number, which are packed without padding.

    rows: has a dict for every document. lengths: its tokens. collate: the trainer's collator, which is
    given one document at a time.
    """

    def __init__(self, rows, lengths, collate):
        self.rows, self.lengths, self._collate = rows, lengths, collate
        self._pack = PackedCollator()

    def __len__(self):
        return len(self.lengths)

    def pack(self, numbers):
        """A micro-batch, as PackedCollator gives it."""
        return self._pack([self._one(int(number)) for number in numbers])

    def longest_two(self):
        """Their token ids; the same ones twice where there are no two."""
        longest = np.argsort(-self.lengths, kind="stable")[:2]
        return [self._one(int(number))["input_ids"] for number in (longest[0], longest[-1])]

    def _one(self, number):
        """A document as the collator gives it, without the collator's dimension of batches and padding."""
        batch = self._collate([self.rows[number]])
        document = {name: torch.as_tensor(batch[name])[0] for name in _READ if name in batch}
        kept = document.pop("attention_mask", torch.ones_like(document["input_ids"])) != 0
        if int(kept.sum()) != self.lengths[number]:
            raise InvalidInput(f"document {number} has {self.lengths[number]} tokens in the dataset and {int(kept.sum())} "
                               "from the data collator; cut documents in the dataset, not in the collator")
        return {name: values[kept] for name, values in document.items()}


def documents_of(dataset, collate, name, *, has_final_labels):
    """The Documents of a trainer's dataset; name: what messages call it. has_final_labels: where the dataset
    has labels, they have its masks in them already, as TRL's trainers leave them.

    Raises InvalidInput for a dataset whose lengths are not known, or without token ids.
    """
    if isinstance(dataset, torch.utils.data.IterableDataset) or _is_streaming(dataset):
        raise InvalidInput(f"{name} is a {type(dataset).__name__}, whose lengths are not known ahead; load it "
                           "without streaming=True, or as a list")
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise InvalidInput(f"{name} is a {type(dataset).__name__} without documents by number; give a "
                           "datasets.Dataset or a list")
    if not len(dataset):
        raise InvalidInput(f"{name} has no documents; give another one")
    if hasattr(dataset, "column_names"):
        return _of_columns(dataset, collate, name, has_final_labels)
    return Documents(dataset, _measured(dataset, name), collate)


def _is_streaming(dataset):
    return hasattr(dataset, "column_names") and not hasattr(dataset, "__len__")


def _of_columns(dataset, collate, name, has_final_labels):
    names = dataset.column_names
    if "seq_lengths" in names:
        raise InvalidInput(f"{name} has a column seq_lengths, so its rows are packs already; give whole documents")
    if "input_ids" not in names:
        raise InvalidInput(f"{name} has the columns {listed(names)}, must have input_ids; tokenize it first, or take "
                           "TRL's SFTTrainer, which does")
    unread = LOSS_MASKS if has_final_labels and "labels" in names else ()
    rows = dataset.select_columns([column for column in _READ if column in names and column not in unread])
    return Documents(rows, from_dataset(rows).lengths, collate)


def _measured(dataset, name):
    """Reads every document of the dataset once."""
    lengths = np.zeros(len(dataset), np.int64)
    for number in range(len(dataset)):
        row = dataset[number]
        if "input_ids" not in row:
            raise InvalidInput(f"document {number} of {name} has the entries {listed(row)}, must have input_ids; "
                               "tokenize it first")
        kept = row.get("attention_mask")
        lengths[number] = len(row["input_ids"]) if kept is None else int(torch.as_tensor(kept).sum())
    return lengths
