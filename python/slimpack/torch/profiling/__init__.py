"""Measures what the layers of a Hugging Face decoder cost, for plans that slimpack.torch.pipeline runs."""

from slimpack.torch.profiling.profile import profile

__all__ = ["profile"]
