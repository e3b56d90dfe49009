"""Batches of documents to tokens."""

import os
from dataclasses import dataclass

import numpy as np

from slimpack.text.batches import Position
from slimpack.text.documents import documents_of
from slimpack.text.errors import BadDocument
from slimpack.text.losses import Losses
from slimpack.text.tokenizer import load

UINT16_VOCABULARY = 65_500  # Megatron stores smaller ones as uint16
MAX_LENGTH = 2**31 - 1  # of a document in tokens: the .idx has int32 lengths


def stored_type(vocabulary):
    return np.dtype("<u2" if vocabulary < UINT16_VOCABULARY else "<i4")


@dataclass
class Findings:
    """Findings about some documents that are worth a word."""

    empty: int = 0  # documents left out, as they have no token
    first_empty: str | None = None  # place of the first of these
    lost_characters: int = 0  # that no token stands for
    lossy: int = 0  # documents that have some
    first_lossy: str | None = None
    ended: int = 0  # documents whose text ends with the end of a document already
    cut: int = 0  # conversations whose text is cut where a token would be partly a target
    first_cut: str | None = None
    endless: int = 0  # conversations whose last target is no special token
    first_endless: str | None = None

    def add(self, others):
        self.empty += others.empty
        self.first_empty = self.first_empty or others.first_empty
        self.lost_characters += others.lost_characters
        self.lossy += others.lossy
        self.first_lossy = self.first_lossy or others.first_lossy
        self.ended += others.ended
        self.cut += others.cut
        self.first_cut = self.first_cut or others.first_cut
        self.endless += others.endless
        self.first_endless = self.first_endless or others.first_endless


@dataclass(frozen=True)
class EncodedBatch:
    """The part of the dataset that a batch adds."""

    lengths: bytes  # int32 for each document
    tokens: bytes  # in the dataset's type
    documents: int
    text_bytes: int
    findings: Findings
    end: Position
    read: int
    mask: bytes = b""  # of conversations: 1 for each token that is a target, else 0
    targets: int = 0


class Encoder:
    def __init__(self, tokenizer, field):
        self.tokenizer = load(tokenizer.json)
        self.losses = Losses(self.tokenizer)
        self.vocabulary = tokenizer.vocabulary
        self.end, self.end_id = tokenizer.end, tokenizer.end_id
        self.ends_itself = tokenizer.ends_itself
        self.field = field
        self.type = stored_type(tokenizer.vocabulary)

    def encode(self, batch):
        places, texts, found = [], [], Findings()
        for place, text in documents_of(batch, self.field):
            if text:
                places.append(place)
                texts.append(text)
            else:
                found.add(Findings(empty=1, first_empty=place))
        lengths, tokens = [], []
        for stored in self.encode_texts(places, texts, found):
            lengths.append(len(stored))
            tokens.append(stored.tobytes())
        return EncodedBatch(
            np.array(lengths, "<i4").tobytes(), b"".join(tokens), len(lengths),
            sum(len(text.encode()) for text in texts), found, batch.end, batch.read)

    def encode_texts(self, places, texts, found):
        """The tokens of each text that has some, as they are stored. found: Findings, to which others are added."""
        for place, text, ids in zip(places, texts, self.ids(places, texts)):
            if lost := self.losses.of(text):
                found.add(Findings(lost_characters=lost, lossy=1, first_lossy=place))
            if ids:
                yield self.stored(place, self.ended(ids, text, found))
            else:
                found.add(Findings(empty=1, first_empty=place))

    def ended(self, ids, text, found):
        """The ids with one end of the document. A text that ends with it, and with white space behind it
        at most, has it already."""
        if self.end is None:
            return ids
        has_end = text.rstrip().endswith(self.end) and ids.count(self.end_id) > self.ends_itself
        if not has_end:
            return ids if self.ends_itself else [*ids, self.end_id]
        found.add(Findings(ended=1))
        return ids[:-1] if self.ends_itself else ids

    def ids(self, places, texts):
        """The ids of each text as if it were alone."""
        try:
            return [encoding.ids for encoding in self.tokenizer.encode_batch_fast(texts)]
        except Exception:  # the library has no type of its own
            return [self.ids_of_one(place, text) for place, text in zip(places, texts)]

    def ids_of_one(self, place, text):
        return self.encoding_of(place, text).ids

    def encoding_of(self, place, text):
        try:
            return self.tokenizer.encode(text)
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
