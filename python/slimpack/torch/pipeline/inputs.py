"""Hidden states that a stage received, until the backward passes of their tokens."""

import torch


class StageInputs:
    """By sequence the rows of its tokens, in the pieces in which they came."""

    def __init__(self, memory):
        self._memory = memory
        self._pieces = {}  # by sequence, ascending: (begin, end, rows)

    def put(self, pack, rows_TD):
        """Keeps a pack's rows. Rows of several slices are copied, so that each is freed by
        itself."""
        row = 0
        for sequence, begin, end in pack.slices:
            piece_TD = rows_TD[row:row + end - begin]
            row += end - begin
            if len(pack.slices) > 1:
                piece_TD = piece_TD.clone()
            self._pieces.setdefault(sequence, []).append((begin, end, self._memory.keep(piece_TD)))
            self._memory.meter.add(piece_TD.nbytes)

    def take(self, pack, device):
        """A pack's rows, [T, D], on the device. Frees pieces that no earlier slice needs.

        REQUIRES: a sequence's slices are taken from the last to the first.
        """
        taken = []
        for sequence, begin, end in pack.slices:
            parts, pieces = [], self._pieces[sequence]
            for first, last, piece_TD in reversed(pieces):
                low, high = max(first, begin), min(last, end)
                if low < high:
                    parts.append(self._memory.fetch(piece_TD[low - first:high - first], device))
                if first < begin:
                    break
            taken += reversed(parts)
            while pieces and pieces[-1][0] >= begin:
                self._memory.meter.add(-pieces.pop()[2].nbytes)
        return torch.cat(taken)
