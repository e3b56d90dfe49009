"""SlimPack for PyTorch training loops: balanced packing of whole documents for a DataLoader, and
plans that run on Hugging Face models (slimpack.torch.pipeline)."""

import importlib

from slimpack.torch.collator import PackedCollator
from slimpack.torch.loader import PackedDataLoader
from slimpack.torch.sampler import SlimPackSampler

__all__ = ["PackedCollator", "PackedDataLoader", "SlimPackMixin", "SlimPackSampler", "SlimPackTrainer", "check",
           "estimate", "from_dataset", "profile"]
# Import transformers or datasets, which the others do not need.
_LATER = {"SlimPackMixin": "slimpack.torch.trainer", "SlimPackTrainer": "slimpack.torch.trainer",
          "check": "slimpack.torch.pipeline.checking", "estimate": "slimpack.torch.profiling",
          "from_dataset": "slimpack.torch.dataset_source",
          "profile": "slimpack.torch.profiling"}


def __getattr__(name):
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name]), name)
