"""Where tensors begin in memory.

MKL sums a matrix product in another order where a matrix begins at an odd address: on an AMD EPYC at
no multiple of 16 bytes. torch allocates at multiples of 64. A tensor that lies in a mapped file, as
safetensors and transformers load it, begins anywhere. So the bits of a result would depend on the
lengths of the names before it in the file.
"""

import torch

_ALIGNMENT = 64  # bytes: torch's own


def aligned(tensor):
    """The tensor, or a copy of it where it does not begin as tensors of torch's own do."""
    return tensor if tensor.data_ptr() % _ALIGNMENT == 0 else tensor.clone()


@torch.no_grad()
def align(model):
    """Moves parameters and buffers of a model that begin elsewhere. They stay the same objects."""
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = aligned(tensor.data)
