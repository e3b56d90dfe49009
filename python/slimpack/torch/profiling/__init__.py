"""Says what layers of a Hugging Face decoder cost under slimpack.torch.pipeline."""

from slimpack.torch.profiling.estimate import estimate
from slimpack.torch.profiling.profile import profile

__all__ = ["estimate", "profile"]
