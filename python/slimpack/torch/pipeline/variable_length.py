"""One attention call for all slices of a MicroPack, on GPUs: torch's flash attention for sequences
of several lengths, whose causal mask is aligned to the last key.

The kernel takes heads of one width, a multiple of 8. Narrower ones, such as the values of
DeepSeek's attention, are filled up with zeros, which add nothing to scores, and cut off the output.
"""

import torch
from torch.nn import functional
from torch.nn.attention.varlen import varlen_attn

_WIDEST = 256  # numbers of a head


def can_run(query_1HTD, key_1HTD, value_1HTD):
    """Whether the kernel takes these tensors."""
    return (_is_on_its_device(query_1HTD)
            and max(query_1HTD.shape[-1], value_1HTD.shape[-1]) <= _WIDEST)


def run(parts, query_1HTD, key_1HTD, value_1HTD, scale, window):
    """[1, T, H, D]. parts: Parts. window: tokens that a token sees, itself included; None = all
    before it."""
    own, wanted = query_1HTD.shape[-1], value_1HTD.shape[-1]
    width = -(-max(own, wanted) // 8) * 8
    rows_THD = [functional.pad(tensor[0].transpose(0, 1), (0, width - tensor.shape[-1]))
                for tensor in (query_1HTD, key_1HTD, value_1HTD)]
    bounds = parts.bounds(query_1HTD.device)
    output_THD = varlen_attn(*rows_THD, bounds.query_ends, bounds.key_ends, bounds.most_queries,
                             bounds.most_keys, scale=own ** -0.5 if scale is None else scale,
                             window_size=(-1 if window is None else window - 1, 0),
                             enable_gqa=True)
    return output_THD[None, ..., :wanted]


def _is_on_its_device(tensor):
    return tensor.is_cuda and tensor.dtype in (torch.bfloat16, torch.float16)
