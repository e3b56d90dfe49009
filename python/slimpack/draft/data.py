"""The sequences that a head trains on: token datasets, and answers that the target has written."""

import json
from pathlib import Path

import numpy as np

from slimpack import IndexedDataset, InvalidInput
from slimpack.text.documents import lines_in
from slimpack.text.errors import shown
from slimpack.text.inputs import ending_format

ANSWERS_SUFFIX = ".jsonl"


class Documents:
    """Token documents by number.

    lengths: of all, int64. first_answers: by document its first token that the target wrote; 0 in a
    dataset of text, where every token is learned from.
    """

    def __init__(self, tokens_of, lengths, first_answers):
        self._tokens_of = tokens_of
        self.lengths = np.asarray(lengths, np.int64)
        self.first_answers = np.asarray(first_answers, np.int64)

    def sequence(self, document, begin, length):
        """(tokens, first token of the answer) of a part of a document, as int64."""
        tokens = np.asarray(self._tokens_of(int(document))[begin : begin + length], np.int64)
        return tokens, max(int(self.first_answers[document] - begin), 0)

    def split(self, tokens):
        """(the rest, the last documents that hold about so many tokens, at least one)."""
        total = self.lengths.cumsum()
        count = int(np.searchsorted(total, total[-1] - tokens, "right"))
        count = min(max(count, 1), len(self.lengths) - 1)
        return self._part(0, count), self._part(count, len(self.lengths))

    def _part(self, begin, end):
        return Documents(lambda document: self._tokens_of(begin + document),
                         self.lengths[begin:end], self.first_answers[begin:end])

    def counts(self, vocabulary):
        """By token of the target how often it is learned. Raises InvalidInput for unknown tokens."""
        counts = np.zeros(vocabulary, np.int64)
        for document, length in enumerate(self.lengths):
            tokens, first = self.sequence(document, 0, int(length))
            if len(tokens) and not 0 <= tokens.min() <= tokens.max() < vocabulary:
                wrong = tokens[(tokens < 0) | (tokens >= vocabulary)][0]
                raise InvalidInput(f"document {document} has token {wrong}, the target knows "
                                   f"{vocabulary:,}; make the data with the target's tokenizer")
            counts += np.bincount(tokens[first:], minlength=vocabulary)
        return counts


def read_documents(path):
    """The Documents of answers (FILE.jsonl) or of a dataset (PREFIX.bin, PREFIX.idx)."""
    if ending_format(str(path)) == "jsonl":
        documents = _read_answers(Path(path))
    else:
        dataset = IndexedDataset.open(str(path))
        documents = Documents(dataset.__getitem__, dataset.lengths(), np.zeros(len(dataset)))
    if not (documents.lengths > 2).any():  # two tokens in, one to predict
        raise InvalidInput(f"'{path}' has no document of three tokens or more; give other data")
    return documents


def _read_answers(file):
    tokens, firsts = [], []
    for number, line in lines_in(file, "answers"):
        prompt, answer = answer_of(line, f"'{shown(file)}': line {number}")
        tokens.append(np.array(prompt + answer, np.int32))
        firsts.append(len(prompt))
    return Documents(tokens.__getitem__, [len(ids) for ids in tokens], firsts)


def answer_of(line, place):
    """(prompt, answer): the token ids in a line that `slimpack draft answers` has written."""
    try:
        value = json.loads(line)
        parts = value["prompt"], value["answer"]
        for ids in parts:
            np.array(ids, np.int32)  # refuses what is no list of tokens
            if not all(type(token) is int for token in ids):
                raise ValueError("token ids are whole numbers")
        return parts
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else error
        raise InvalidInput(f"{place}: no answer ({reason}); a line is {{\"prompt\": [ids], \"answer\": "
                           "[ids]}, as 'slimpack draft answers' writes it") from None
