"""Where a stage keeps tensors between passes: on its device, or in host memory.

Both memories have the same methods, and copies to and from a GPU wait in its queue, so nobody waits
for them. Rows of tokens are kept for all of a sequence's tokens that some slice asks for.
"""

import torch

_AT_ONCE = 32 << 20  # bytes of rows that come from host memory to be added to


class Meter:
    """Counts bytes: now, and at most since the start."""

    def __init__(self):
        self.now = self.peak = 0

    def add(self, size):
        self.now += size
        self.peak = max(self.peak, self.now)


class DeviceMemory:
    """Tensors stay where they are, rows of tokens as [H, rows, D]."""

    def __init__(self):
        self.meter = Meter()

    def keep(self, tensor):
        """The tensor as it is kept."""
        return tensor

    def fetch(self, kept, device):
        """A kept tensor, or a part of one, on the device."""
        return kept

    def zeros(self, like_HTD, rows, dtype):
        """Rows for so many tokens, all 0."""
        return like_HTD.new_zeros((like_HTD.shape[0], rows, like_HTD.shape[2]), dtype=dtype)

    def write(self, kept, row, rows_HTD):
        """Kept rows from `row` on become these."""
        kept[:, row:row + rows_HTD.shape[1]] = rows_HTD

    def read(self, kept, row, into_HTD):
        """Copies kept rows from `row` on."""
        into_HTD.copy_(kept[:, row:row + into_HTD.shape[1]])

    def add(self, kept, row, rows_HTD):
        """Adds to kept rows from `row` on."""
        kept[:, row:row + rows_HTD.shape[1]] += rows_HTD

    def add_to(self, total_HTD, kept, row):
        """Adds kept rows from `row` on to these."""
        total_HTD += kept[:, row:row + total_HTD.shape[1]]


class HostMemory:
    """Tensors wait in host memory, which is pinned for a GPU; rows of tokens as [rows, H, D], of
    which any range is one copy."""

    def __init__(self):
        self.meter = Meter()

    def keep(self, tensor):
        return self._empty(tensor.shape, tensor.dtype, tensor.device).copy_(tensor,
                                                                           non_blocking=True)

    def fetch(self, kept, device):
        return kept.to(device, non_blocking=True, copy=True)

    def zeros(self, like_HTD, rows, dtype):
        heads, _, width = like_HTD.shape
        return self._empty((rows, heads, width), dtype, like_HTD.device).zero_()

    def write(self, kept_RHD, row, rows_HTD):
        rows_THD = rows_HTD.transpose(0, 1).contiguous()
        kept_RHD[row:row + len(rows_THD)].copy_(rows_THD, non_blocking=True)

    def read(self, kept_RHD, row, into_HTD):
        for part_RHD, of in _blocks(kept_RHD, row, into_HTD):
            of.copy_(self.fetch(part_RHD, of.device).transpose(0, 1))

    def add(self, kept_RHD, row, rows_HTD):
        for part_RHD, of in _blocks(kept_RHD, row, rows_HTD):
            sum_THD = self.fetch(part_RHD, of.device)
            sum_THD += of.transpose(0, 1)
            part_RHD.copy_(sum_THD, non_blocking=True)

    def add_to(self, total_HTD, kept_RHD, row):
        for part_RHD, of in _blocks(kept_RHD, row, total_HTD):
            of += self.fetch(part_RHD, of.device).transpose(0, 1)

    def _empty(self, shape, dtype, device):
        return torch.empty(shape, dtype=dtype, pin_memory=device.type == "cuda")


def _blocks(kept_RHD, row, rows_HTD):
    """Pairs of kept rows and those beside them, few at a time."""
    each = max(1, _AT_ONCE // kept_RHD[:1].nbytes) if len(kept_RHD) else 1
    for begin in range(0, rows_HTD.shape[1], each):
        end = min(begin + each, rows_HTD.shape[1])
        yield kept_RHD[row + begin:row + end], rows_HTD[:, begin:end]


class Memories:
    """The two memories of a stage in a step. offloaded: layers whose keys and values wait in the
    host's; with any such layer the stage's inputs wait there, too."""

    def __init__(self, offloaded=frozenset()):
        self.device, self.host = DeviceMemory(), HostMemory()
        self._offloaded = offloaded

    def of_layer(self, layer):
        return self.host if layer in self._offloaded else self.device

    def of_inputs(self):
        return self.host if self._offloaded else self.device

    def are_empty(self):
        return self.device.meter.now == self.host.meter.now == 0

    def peaks(self):
        """The most bytes that each of the two has held."""
        return self.device.meter.peak, self.host.meter.peak
