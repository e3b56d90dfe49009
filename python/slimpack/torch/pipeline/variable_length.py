"""One attention call for all slices of a MicroPack, on GPUs: torch's flash attention for sequences
of several lengths, whose causal mask is aligned to the last key.

Its operators have had the same first arguments in all releases. varlen_attn, which calls them too,
takes neither windows nor shared key heads in some.

The kernel takes heads of one width, a multiple of 8. Narrower ones, such as the values of
DeepSeek's attention, are filled up with zeros, which add nothing to scores, and cut off the output.
"""

import torch
from torch.nn import functional

_forward = torch.ops.aten._flash_attention_forward
_backward = torch.ops.aten._flash_attention_backward

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
    output_THD = _Attention.apply(*rows_THD, parts.bounds(query_1HTD.device),
                                  own ** -0.5 if scale is None else scale, window)
    return output_THD[None, ..., :wanted]


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query_THD, key_THD, value_THD, bounds, scale, window):
        ctx.bounds, ctx.causal = bounds, window is None
        ctx.options = {"scale": scale}
        if window is not None:  # some implementations take none
            ctx.options |= {"window_size_left": window - 1, "window_size_right": 0}
        output_THD, lse_HT, *dropout, _ = _forward(query_THD, key_THD, value_THD, *bounds, 0.0,
                                                   ctx.causal, False, **ctx.options)
        ctx.save_for_backward(query_THD, key_THD, value_THD, output_THD, lse_HT, *dropout)
        return output_THD

    @staticmethod
    def backward(ctx, grad_THD):
        query_THD, key_THD, value_THD, output_THD, lse_HT, *dropout = ctx.saved_tensors
        grads = _backward(grad_THD, query_THD, key_THD, value_THD, output_THD, lse_HT, *ctx.bounds,
                          0.0, ctx.causal, *dropout, **ctx.options)
        return *grads, None, None, None


def _is_on_its_device(tensor):
    return tensor.is_cuda and tensor.dtype in (torch.bfloat16, torch.float16)
