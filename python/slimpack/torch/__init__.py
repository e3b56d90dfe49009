"""SlimPack for PyTorch training loops: balanced packing of whole documents for a DataLoader, and
plans that run on Hugging Face models (slimpack.torch.pipeline)."""

from slimpack.torch.collator import PackedCollator
from slimpack.torch.sampler import SlimPackSampler

__all__ = ["PackedCollator", "SlimPackSampler", "check"]


def __getattr__(name):
    if name != "check":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imports transformers, which the others do not need.
    from slimpack.torch.pipeline.checking import check

    return check
