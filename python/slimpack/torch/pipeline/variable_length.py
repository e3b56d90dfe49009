"""One attention call for all slices of a MicroPack, on GPUs: torch's flash attention for sequences
of several lengths, whose causal mask is aligned to the last key."""

import torch
from torch.nn.attention.varlen import varlen_attn


def can_run(query_1HTD, key_1HTD, value_1HTD):
    """Whether the kernel takes these tensors."""
    width = query_1HTD.shape[-1]
    return (query_1HTD.is_cuda and query_1HTD.dtype in (torch.bfloat16, torch.float16)
            and width == value_1HTD.shape[-1] and width % 8 == 0 and width <= 256)


def run(parts, query_1HTD, key_1HTD, value_1HTD, scale, window):
    """[1, T, H, D]. window: tokens that a token sees, itself included; None = all before it."""
    queries = [part.end - part.begin for part in parts]
    keys = [part.end - part.first_key for part in parts]
    rows_THD = [tensor[0].transpose(0, 1) for tensor in (query_1HTD, key_1HTD, value_1HTD)]
    left = -1 if window is None else window - 1
    return varlen_attn(*rows_THD, _ends(queries, query_1HTD.device), _ends(keys, query_1HTD.device),
                       max(queries), max(keys), scale=scale, window_size=(left, 0),
                       enable_gqa=True)[None]


def _ends(counts, device):
    """Prefix sums from 0, int32."""
    return torch.tensor([0, *counts]).cumsum(0, dtype=torch.int32).to(device, non_blocking=True)
