"""Bytes of tensors that are alive, now and at most."""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def live_bytes(device):
    """A context manager in which `now`, `peak` and `restart` count a device's tensors."""
    return CudaBytes(device) if torch.device(device).type == "cuda" else CountedBytes()


class CountedBytes(TorchDispatchMode):
    """Counts each storage that an operation makes, once, until it is freed. Memory that a kernel
    uses within itself is not seen."""

    def __init__(self):
        super().__init__()
        self.now = self.peak = 0
        self._alive = {}

    def restart(self):
        """From here on `peak` is that of what comes."""
        self.peak = self.now

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        known = {storage._cdata for storage in _storages((args, kwargs))}
        output = func(*args, **(kwargs or {}))
        for storage in _storages(output):
            if storage._cdata not in known and storage._cdata not in self._alive:
                self._begin(storage)
        return output

    def _begin(self, storage):
        key, size = storage._cdata, storage.nbytes()
        self._alive[key] = weakref.ref(storage, lambda _: self._end(key, size))
        self.now += size
        self.peak = max(self.peak, self.now)

    def _end(self, key, size):
        del self._alive[key]
        self.now -= size


class CudaBytes:
    """Meters the bytes that torch's allocator on a GPU has handed out."""

    def __init__(self, device):
        self._device = device

    def __enter__(self):
        self.restart()
        return self

    def __exit__(self, *_):
        return None

    @property
    def now(self):
        return torch.cuda.memory_allocated(self._device)

    @property
    def peak(self):
        return torch.cuda.max_memory_allocated(self._device)

    def restart(self):
        """From here on `peak` is that of what comes."""
        torch.cuda.reset_peak_memory_stats(self._device)


def _storages(tree):
    return [leaf.untyped_storage() for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
