"""Rows of some tokens of each sequence: keys, values or their gradients, where later slices need
them.

Only rows in the prefix of some slice are kept, and of layers with a window only those that the
slice sees. An uncut sequence keeps nothing.
"""

import bisect

import torch


def seen_from(begin, window):
    """The first token of the prefix [0, begin) that the slice beginning there sees. window: tokens
    that a token sees, itself included; None = all before it."""
    return 0 if window is None else max(0, begin - window + 1)


class Ranges:
    """Disjoint token ranges, stored one after another."""

    def __init__(self, begins, window):
        """The union of the prefixes that slices beginning at `begins`, ascending, see."""
        self.ranges = []  # (first token, end, first row)
        self.rows = 0
        for begin in begins:
            first = seen_from(begin, window)
            if self.ranges and first <= self.ranges[-1][1]:
                self.rows += begin - self.ranges[-1][1]
                self.ranges[-1] = (self.ranges[-1][0], begin, self.ranges[-1][2])
            else:
                self.ranges.append((first, begin, self.rows))
                self.rows += begin - first

    def overlaps(self, begin, end):
        """Where tokens [begin, end) are kept: (first token, end, first row) of each part."""
        at = bisect.bisect_right(self.ranges, begin, key=lambda kept: kept[1])
        for first, last, row in self.ranges[at:]:
            if first >= end:
                return
            low = max(first, begin)
            yield low, min(last, end), row + low - first


class TokenRows:
    """By key and sequence rows of tokens, in the memory of the key's layer.

    A key is a tuple whose first entry is the layer. begins: by sequence, ascending, where slices
    with a prefix begin. windows: by layer what seen_from takes. memory_of: the memory of a layer
    (memory.py).
    """

    def __init__(self, begins, windows, memory_of):
        self._begins, self._windows, self._memory_of = begins, windows, memory_of
        self._ranges, self._rows = {}, {}

    def put(self, key, sequence, begin, rows_HTD):
        """Keeps those rows of tokens from `begin` on that some slice will ask for."""
        for low, high, row in self._overlaps(key, sequence, begin, begin + rows_HTD.shape[1]):
            kept = self._of(key, sequence, rows_HTD, rows_HTD.dtype)
            self._memory_of(key[0]).write(kept, row, rows_HTD[:, low - begin:high - begin])

    def read(self, key, sequence, begin, into_HTD):
        """Copies the rows of tokens from `begin` on. REQUIRES: they are one range, and were put."""
        (_, _, row), = self._overlaps(key, sequence, begin, begin + into_HTD.shape[1])
        self._memory_of(key[0]).read(self._rows[key, sequence], row, into_HTD)

    def add(self, key, sequence, begin, rows_HTD, dtype):
        """Adds to rows of tokens from `begin` on, which are 0 at first and have that dtype."""
        for low, high, row in self._overlaps(key, sequence, begin, begin + rows_HTD.shape[1]):
            kept = self._of(key, sequence, rows_HTD, dtype)
            self._memory_of(key[0]).add(kept, row, rows_HTD[:, low - begin:high - begin])

    def added_to(self, key, sequence, begin, rows_HTD):
        """Rows of tokens from `begin` on, plus what `add` has left for them."""
        kept = self._rows.get((key, sequence))
        if kept is None:
            return rows_HTD
        total = rows_HTD.to(kept.dtype, copy=True)
        for low, high, row in self._overlaps(key, sequence, begin, begin + rows_HTD.shape[1]):
            self._memory_of(key[0]).add_to(total[:, low - begin:high - begin], kept, row)
        return total.to(rows_HTD.dtype)

    def drop(self, key, sequence):
        rows = self._rows.pop((key, sequence), None)
        if rows is not None:
            self._memory_of(key[0]).meter.add(-rows.nbytes)

    def drop_sequence(self, sequence, chosen):
        """Drops a sequence's rows of those layers for which chosen(layer)."""
        for key, of in list(self._rows):
            if of == sequence and chosen(key[0]):
                self.drop(key, sequence)

    def last_begin(self, sequence):
        """Where the sequence's last slice with a prefix begins; 0 = there is none."""
        return self._begins[sequence][-1] if sequence in self._begins else 0

    def _overlaps(self, key, sequence, begin, end):
        window = self._windows[key[0]]
        place = sequence, window
        if place not in self._ranges:
            self._ranges[place] = Ranges(self._begins.get(sequence, ()), window)
        return self._ranges[place].overlaps(begin, end)

    def _of(self, key, sequence, like_HTD, dtype):
        rows = self._rows.get((key, sequence))
        if rows is None:
            count = self._ranges[sequence, self._windows[key[0]]].rows
            memory = self._memory_of(key[0])
            rows = self._rows[key, sequence] = memory.zeros(like_HTD, count, dtype)
            memory.meter.add(rows.nbytes)
        return rows


def accumulator_dtype(dtype):
    """The type in which gradients of this dtype are summed."""
    return torch.float64 if dtype == torch.float64 else torch.float32
