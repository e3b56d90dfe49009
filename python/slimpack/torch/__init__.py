"""SlimPack for PyTorch training loops: balanced packing of whole documents for a DataLoader."""

from slimpack.torch.collator import PackedCollator
from slimpack.torch.sampler import SlimPackSampler

__all__ = ["PackedCollator", "SlimPackSampler"]


def __getattr__(name):
    if name == "profile":  # needs transformers
        from slimpack.torch.profiling import profile
        return profile
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
