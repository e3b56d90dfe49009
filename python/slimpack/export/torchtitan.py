"""A data loader for torchtitan: every rank's batches have equal work, and none is cut or dropped.

    trainer_config.dataloader = SlimPackDataLoader.Config(documents, micro_batches=8, cost=job)

`documents` is a slimpack.IndexedDataset, or any sequence of arrays of tokens or of LabelledTokens.
"""

import dataclasses
import itertools
from typing import Any, NamedTuple

import numpy as np
import torch

from slimpack import InvalidInput
from slimpack.balancing import require_positive
from slimpack.labelled import IGNORED, LabelledTokens, labels_of, tokens_of, weights_of
from slimpack.lengths import as_lengths
from slimpack.torch import SlimPackSampler
from slimpack.torch.targets import targets_of

VERSION = 1


class Row(NamedTuple):
    """The tokens of a batch, as torchtitan's TextSequence: int64 arrays of one length."""

    input_ids: np.ndarray
    labels: np.ndarray  # the token that follows; -100 where that is no target
    positions: np.ndarray  # 0 starts a sequence


_EMPTY = Row(*(np.empty(0, np.int64) for _ in Row._fields))


class SlimPackDataLoader:
    """A loader that keeps the promises of torchtitan's BaseDataLoader, over whole sequences that
    SlimPackSampler balances.

    documents: tokens of every document, or LabelledTokens. Longer ones than the context become several sequences.
    max_tokens: tokens of a batch. Fewer are padded, as torchtitan's collator does.
    dp_world_size, dp_rank: of the data-parallel group.
    rows: batches have the shape [rows, max_tokens], as torchtitan's release 0.3.0 takes them; by
        default [max_tokens], as its branch main does.
    micro_batches: batches of a rank in a training step, which balance each other: gradient
        accumulation steps times micro-batches of the pipeline.
    context: the most tokens of a sequence; max_tokens by default.
    repeat: goes on with the next epoch where one ends.
    cost, shuffle, seed: as for SlimPackSampler.

    Every epoch has each sequence once, in as many batches on every rank and in whole steps of
    micro_batches. A batch of padding fills up a step that has too few sequences.
    `state_dict` is the same on all ranks and goes on with any number of them: no token is lost or
    comes twice. So its key is dp_rank_0 on every rank, for a checkpoint that ranks of another
    number load.
    """

    @dataclasses.dataclass(kw_only=True)
    class Config:
        """The configuration that torchtitan builds the loader from: `build` gets the trainer's arguments."""

        documents: Any = dataclasses.field(kw_only=False)
        micro_batches: int = 1
        cost: Any = None
        shuffle: bool = True
        seed: int = 0
        repeat: bool = True

        def build(self, *, dp_world_size, dp_rank, max_context_length=None,
                  num_tokens_per_batch=None, seq_len=None, local_batch_size=None, **_):
            """Takes what the trainer of torchtitan's branch main gives, the context and the tokens
            of a batch; or that of its release 0.3.0, seq_len and local_batch_size."""
            if seq_len is not None and local_batch_size is not None:
                shape = {"max_tokens": seq_len, "context": seq_len, "rows": local_batch_size}
            elif max_context_length is not None and num_tokens_per_batch is not None:
                shape = {"max_tokens": num_tokens_per_batch,
                         "context": min(max_context_length, num_tokens_per_batch)}
            else:
                raise InvalidInput(
                    "the trainer gives no shape of a batch that is known; take torchtitan 0.3.0, which gives "
                    "seq_len and local_batch_size, or one that gives max_context_length and "
                    "num_tokens_per_batch")
            options = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
            return SlimPackDataLoader(dp_world_size=dp_world_size, dp_rank=dp_rank, **shape, **options)

        def to_dict(self):
            """For torchtitan's logs: what JSON can hold."""
            return {"documents": len(self.documents), "micro_batches": self.micro_batches,
                    "shuffle": self.shuffle, "seed": self.seed, "repeat": self.repeat}

    def __init__(self, documents, max_tokens, *, dp_world_size=1, dp_rank=0, micro_batches=1,
                 context=None, rows=None, repeat=True, cost=None, shuffle=True, seed=0):
        for name, value in (("context", context), ("max_tokens", max_tokens), ("rows", rows),
                            ("micro_batches", micro_batches)):
            require_positive(name, value)
        self.documents, self.max_tokens, self.repeat = documents, max_tokens, repeat
        self._rows, self._shape = rows or 1, (max_tokens,) if rows is None else (rows, max_tokens)
        self._document, self._begin, self._end = _sequences(documents, context or max_tokens)
        self.sampler = SlimPackSampler(
            self._end - self._begin, max_tokens, ranks=dp_world_size, rank=dp_rank,
            micro_batches=micro_batches * self._rows, cost=cost, shuffle=shuffle, seed=seed)

    def __iter__(self):
        """({"input": tokens, "positions": …}, labels) by batch: int64 tensors of its shape."""
        rows = self.rows()
        while at_once := list(itertools.islice(rows, self._rows)):
            at_once += [_EMPTY] * (self._rows - len(at_once))  # a state of batches with fewer rows
            tokens, labels, positions = (
                torch.from_numpy(np.stack(parts).reshape(self._shape))
                for parts in zip(*map(self._filled, at_once), strict=True))
            yield {"input": tokens, "positions": positions}, labels

    def _filled(self, row):
        """The row's tokens, labels and positions with padding, as long as max_tokens."""
        padding = self.max_tokens - len(row.input_ids)
        return (np.append(row.input_ids, np.zeros(padding, np.int64)),
                np.append(row.labels, np.full(padding, IGNORED)),
                np.append(row.positions, np.arange(padding)))

    def rows(self):
        """A Row for each row of the batches, without padding, for another collator. Moves the loader on."""
        while True:
            for batch in self.sampler:
                yield self._row(batch)
            if not self.repeat:
                return

    def _row(self, batch):
        if not batch:
            return _EMPTY
        sequences = [self._sequence(int(self._document[i]), int(self._begin[i]), int(self._end[i]))
                     for i in batch]
        return Row(np.concatenate([of_one.tokens for of_one in sequences]),
                   np.concatenate([targets_of(of_one) for of_one in sequences]),
                   np.concatenate([np.arange(len(of_one)) for of_one in sequences]))

    def _sequence(self, document, begin, end):
        """LabelledTokens of tensors."""
        if hasattr(self.documents, "read"):
            found = self.documents.read(document, begin, end)
        else:
            found = self.documents[document][begin:end]
        if weights_of(found) is not None:
            raise InvalidInput(f"document {document} has weights, which torchtitan's loss does not take; "
                               "leave them out and give what is no target the label -100")
        return LabelledTokens(*(torch.from_numpy(np.array(part, dtype=np.int64))
                                for part in (tokens_of(found), labels_of(found))))

    def state_dict(self):
        """Batches that were handed out are done."""
        return {"version": VERSION, "dp_world_size": self.sampler.ranks,
                "dp_rank_0": self.sampler.state_dict()}

    def load_state_dict(self, state_dict):
        """Goes on where any rank's state was saved. An empty state is the beginning."""
        if not state_dict:
            return
        if state_dict.get("version") != VERSION:
            raise InvalidInput(f"the loader's state has version {state_dict.get('version')!r}, "
                               f"must be {VERSION}; take the slimpack that wrote it")
        of_ranks = [state for name, state in state_dict.items() if name.startswith("dp_rank_")]
        if not of_ranks:
            raise InvalidInput(
                "the loader's state has no dp_rank_… entry; give what state_dict returned")
        self.sampler.load_state_dict(of_ranks[0])

    def close(self):
        """Nothing runs in the background."""


def _sequences(documents, context):
    """(document, begin, end) of every sequence, as arrays. Documents without tokens have none."""
    lengths = as_lengths(documents.lengths() if hasattr(documents, "lengths")
                         else [len(document) for document in documents])
    counts = -(-lengths // context)
    document = np.repeat(np.arange(lengths.size), counts)
    begin = (np.arange(document.size) - np.repeat(counts.cumsum() - counts, counts)) * context
    return document, begin, np.minimum(begin + context, lengths[document])
