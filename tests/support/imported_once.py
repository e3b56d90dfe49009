"""The server of forks imports this module for them (forking.py)."""

import os

# Torch reads these when it is loaded.
os.environ.update(OMP_NUM_THREADS="1", TORCH_CPP_LOG_LEVEL="ERROR")

import peft  # noqa: E402, F401
import torch.distributed.checkpoint  # noqa: E402, F401
import torch.distributed.fsdp  # noqa: E402, F401
import transformers  # noqa: E402, F401
from slimpack import worker  # noqa: E402, F401
from slimpack.torch import pipeline  # noqa: E402, F401
