"""SlimPack for PyTorch training loops: balanced packing of whole documents for a DataLoader."""

from slimpack.torch.collator import PackedCollator
from slimpack.torch.sampler import SlimPackSampler

__all__ = ["PackedCollator", "SlimPackSampler"]
