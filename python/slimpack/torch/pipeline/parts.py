"""Where the slices of a pack are in the tensors of a layer."""

from typing import NamedTuple

import torch

from slimpack.torch.pipeline.token_rows import seen_from


class Part(NamedTuple):
    """A slice: tokens begin to before end of a sequence, which see keys from token first_key on.
    Its queries begin at query_row of the pack's, its keys at key_row of the gathered ones."""

    sequence: int
    begin: int
    end: int
    query_row: int
    key_row: int
    first_key: int

    def of(self, query_1HTD, key_1HTD, value_1HTD):
        """Its queries, and the keys and values that they see."""
        queries = slice(self.query_row, self.query_row + self.end - self.begin)
        keys = slice(self.key_row, self.key_row + self.end - self.first_key)
        return query_1HTD[:, :, queries], key_1HTD[:, :, keys], value_1HTD[:, :, keys]

    def sees_all_before(self, window):
        """Whether each token sees exactly its sequence's tokens before it, and itself."""
        return window is None or self.end <= window

    def sees_itself_alone(self, window):
        """Whether each token sees exactly the slice's tokens before it, and itself."""
        return self.begin == 0 and self.sees_all_before(window)


class Bounds(NamedTuple):
    """Ends of slices among all queries and among all keys, slice after slice: from 0, int32 on a
    device; and the most queries and the most keys that one slice has."""

    query_ends: torch.Tensor
    key_ends: torch.Tensor
    most_queries: int
    most_keys: int


class Parts(list):
    """The parts of a Pack, for all layers with the same window."""

    _bounds = None

    def bounds(self, device):
        """Their Bounds, copied to the device once."""
        if self._bounds is None:
            queries = [part.end - part.begin for part in self]
            keys = [part.end - part.first_key for part in self]
            ends_2N = torch.tensor([[0, *queries], [0, *keys]]).cumsum(1, dtype=torch.int32)
            ends_2N = ends_2N.to(device, non_blocking=True)
            self._bounds = Bounds(*ends_2N, max(queries), max(keys))
        return self._bounds


def parts_of(pack, window):
    """The Parts of a Pack in a layer with this window (seen_from)."""
    parts, query_row, key_row = Parts(), 0, 0
    for sequence, begin, end in pack.slices:
        first_key = seen_from(begin, window)
        parts.append(Part(sequence, begin, end, query_row, key_row, first_key))
        query_row += end - begin
        key_row += end - first_key
    return parts


def blocks_of(part, most, window):
    """A Part cut into Parts of consecutive queries that have at most `most` scores each, or one
    query."""
    rows = max(1, most // (part.end - part.first_key))
    blocks = []
    for begin in range(part.begin, part.end, rows):
        first_key = max(part.first_key, seen_from(begin, window))
        blocks.append(part._replace(begin=begin, end=min(begin + rows, part.end),
                                    first_key=first_key,
                                    query_row=part.query_row + begin - part.begin,
                                    key_row=part.key_row + first_key - part.first_key))
    return blocks
