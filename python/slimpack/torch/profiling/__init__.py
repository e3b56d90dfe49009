"""Measures what layers of a Hugging Face decoder cost under slimpack.torch.pipeline."""

from slimpack.torch.profiling.profile import profile

__all__ = ["profile"]
