"""Lengths of documents and sequences: int64 arrays, one entry each."""

import json
import os

import numpy as np

from slimpack import _planner
from slimpack.numbers import INT64, whole


def as_lengths(lengths):
    """An int64 array of a list, tuple, array or tensor of whole numbers. Copies only what is no such
    array yet."""
    try:
        array = np.asarray(lengths)
    except ValueError as error:  # lists of several lengths
        raise _planner.InvalidInput(f"lengths are no list of numbers: {error}") from None
    if array.ndim != 1:
        raise _planner.InvalidInput(
            f"lengths have {array.ndim} dimensions, must have 1; give one number for each sequence")
    if array.size and array.dtype.kind not in "iu":
        raise _planner.InvalidInput(
            f"lengths are of type {array.dtype}, must be whole numbers; convert them to int64")
    if array.size and array.max() > INT64:
        raise _planner.InvalidInput(f"lengths[{array.argmax()}] is {array.max()}, must be at most {INT64}")
    return np.ascontiguousarray(array, dtype=np.int64)


def read_lengths(file):
    """Reads a length list: one whole number from 1 a line; # starts a comment."""
    return _planner.read_lengths(os.fspath(file))


def length_statistics(lengths):
    """Count, tokens, mean, percentiles, and where tokens and attention work are, as a dict."""
    return json.loads(_planner.length_statistics(as_lengths(lengths)))


def split_documents(lengths, context):
    """The lengths of consecutive sequences of at most `context` tokens, document by document; only the
    last sequence of a document may be shorter."""
    return _planner.split_documents(as_lengths(lengths), whole("context", context, 1, INT64))
