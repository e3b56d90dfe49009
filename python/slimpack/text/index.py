"""Megatron's .idx, written: where each document of the .bin begins."""

import struct

import numpy as np

MAGIC = b"MMIDIDX\0\0"
VERSION = 1
TYPE_CODES = {np.dtype("u1"): 1, np.dtype("<i4"): 4, np.dtype("<u2"): 8}
BLOCK = 1 << 20  # documents at once


def write_index(file, stored_type, lengths):
    """Each document is one sequence. `lengths` is an array of int32, which may be memory-mapped."""
    count = len(lengths)
    file.write(struct.pack("<9sQBQQ", MAGIC, VERSION, TYPE_CODES[stored_type], count, count + 1))
    blocks = range(0, count, BLOCK)
    for at in blocks:
        file.write(lengths[at : at + BLOCK].astype("<i4").tobytes())
    offset = 0
    for at in blocks:
        bytes_of_each = lengths[at : at + BLOCK].astype(np.int64) * stored_type.itemsize
        ends = offset + np.cumsum(bytes_of_each)
        file.write((ends - bytes_of_each).astype("<i8").tobytes())
        offset = int(ends[-1])
    for at in range(0, count + 1, BLOCK):
        file.write(np.arange(at, min(at + BLOCK, count + 1), dtype="<i8").tobytes())
