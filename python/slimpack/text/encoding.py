"""Batches of documents to tokens."""

import os
from dataclasses import dataclass

import numpy as np

from slimpack.text.documents import Position, documents_of
from slimpack.text.errors import BadDocument
from slimpack.text.tokenizer import load

UINT16_VOCABULARY = 65_500  # Megatron stores smaller ones as uint16
MAX_LENGTH = 2**31 - 1  # of a document in tokens: the .idx has int32 lengths


def stored_type(vocabulary):
    return np.dtype("<u2" if vocabulary < UINT16_VOCABULARY else "<i4")


@dataclass(frozen=True)
class EncodedBatch:
    """What a batch adds to the dataset."""

    lengths: bytes  # int32 for each document
    tokens: bytes  # in the dataset's type
    documents: int
    text_bytes: int
    empty: int  # documents left out
    first_empty: str | None  # place of the first of these
    end: Position
    read: int


class Encoder:
    def __init__(self, tokenizer, field):
        self.tokenizer = load(tokenizer.json)
        self.vocabulary = tokenizer.vocabulary
        self.end = [] if tokenizer.end is None or tokenizer.ends_itself else [tokenizer.end_id]
        self.field = field
        self.type = stored_type(tokenizer.vocabulary)

    def encode(self, batch):
        places, texts, empty = [], [], []
        for place, text in documents_of(batch, self.field):
            if text:
                places.append(place)
                texts.append(text)
            else:
                empty.append(place)
        lengths, tokens = [], []
        for place, ids in zip(places, self.ids(places, texts)):
            if not ids:
                empty.append(place)
                continue
            stored = self.stored(place, ids + self.end)
            lengths.append(len(stored))
            tokens.append(stored.tobytes())
        return EncodedBatch(
            np.array(lengths, "<i4").tobytes(), b"".join(tokens), len(lengths),
            sum(len(text.encode()) for text in texts), len(empty), empty[0] if empty else None,
            batch.end, batch.read)

    def ids(self, places, texts):
        """The ids of each text as if it were alone."""
        try:
            return [encoding.ids for encoding in self.tokenizer.encode_batch_fast(texts)]
        except Exception:  # the library has no type of its own
            return [self.ids_of_one(place, text) for place, text in zip(places, texts)]

    def ids_of_one(self, place, text):
        try:
            return self.tokenizer.encode(text).ids
        except Exception as error:
            reason = " ".join(str(error).split())
            raise BadDocument(f"{place}: the tokenizer cannot encode this document ({reason}); "
                              "give a tokenizer that knows its characters, or remove it") from error

    def stored(self, place, ids):
        if len(ids) > MAX_LENGTH:
            raise BadDocument(f"{place}: {len(ids):,} tokens, the .idx holds at most "
                              f"{MAX_LENGTH:,}; split the document")
        tokens = np.array(ids, np.int64)
        largest = int(tokens.max())
        if largest >= self.vocabulary:
            raise BadDocument(f"{place}: the tokenizer gave the id {largest}, but the largest id "
                              f"in its vocabulary is {self.vocabulary - 1}; mend the ids of its "
                              "post_processor")
        return tokens.astype(self.type)


def keep_to_one_thread():
    """The library would start a thread for each core in every process."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
