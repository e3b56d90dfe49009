"""Causal attention of a slice on a CPU: all keys of the prefix without a mask, own keys with the
causal one, merged by their log-sum-exp.

A mask as large as the scores would cost memory, and time for the keys that it hides. Flash
attention's backward takes the output and the log-sum-exp of all keys, so each half gives its share
of the gradients (FlashAttention-2, §3.1).
"""

import torch

_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def can_run(query_1HTD, key_1HTD, value_1HTD):
    """Whether torch's kernel takes these tensors."""
    tensors = query_1HTD, key_1HTD, value_1HTD
    return (not query_1HTD.is_cuda and query_1HTD.shape[-1] == value_1HTD.shape[-1]
            and all(tensor.stride(-1) == 1 for tensor in tensors))


def run(query_1HTD, key_1HTD, value_1HTD, scale):
    """[1, T, H, D]. The last T keys are those of the queries' own tokens."""
    return _PrefixAttention.apply(query_1HTD, key_1HTD, value_1HTD, scale)


class _PrefixAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query_1HTD, key_1HTD, value_1HTD, scale):
        output_GKTD, lse_GKT = _attend(query_1HTD, key_1HTD, value_1HTD, scale)
        ctx.save_for_backward(query_1HTD, key_1HTD, value_1HTD, output_GKTD, lse_GKT)
        ctx.scale = scale
        return output_GKTD.permute(2, 1, 0, 3).flatten(1, 2)[None]

    @staticmethod
    def backward(ctx, grad_1THD):
        query_1HTD, key_1HTD, value_1HTD, output_GKTD, lse_GKT = ctx.saved_tensors
        query_GKTD, key_GKTD, value_GKTD = _by_group(query_1HTD, key_1HTD, value_1HTD)
        grad_GKTD = grad_1THD[0].unflatten(1, (key_1HTD.shape[1], -1)).permute(2, 1, 0, 3)
        query_grad_GKTD, key_grad_1KTD, value_grad_1KTD = 0, *map(torch.empty_like, (key_1HTD,
                                                                                      value_1HTD))
        for keys, causal in zip(_halves(query_1HTD, key_1HTD), (True, False), strict=True):
            if key_GKTD[keys].numel():
                of_query, of_key, of_value = _backward(
                    grad_GKTD, query_GKTD, key_GKTD[keys], value_GKTD[keys], output_GKTD, lse_GKT,
                    0.0, causal, scale=ctx.scale)
                query_grad_GKTD = query_grad_GKTD + of_query
                torch.sum(of_key, 0, keepdim=True, out=key_grad_1KTD[keys])
                torch.sum(of_value, 0, keepdim=True, out=value_grad_1KTD[keys])
        return query_grad_GKTD.transpose(0, 1).flatten(0, 1)[None], key_grad_1KTD, value_grad_1KTD, None


# One operation, so that a selective checkpoint keeps its results and nothing of its halves.
@torch.library.custom_op("slimpack::prefix_attention", mutates_args=())
def _attend(query_1HTD: torch.Tensor, key_1HTD: torch.Tensor, value_1HTD: torch.Tensor,
            scale: float | None) -> tuple[torch.Tensor, torch.Tensor]:
    query_GKTD, key_GKTD, value_GKTD = _by_group(query_1HTD, key_1HTD, value_1HTD)
    own, prefix = _halves(query_1HTD, key_1HTD)
    output_GKTD, lse_GKT = _forward(query_GKTD, key_GKTD[own], value_GKTD[own], 0.0, True,
                                    scale=scale)
    if key_GKTD[prefix].numel():
        seen_GKTD, seen_GKT = _forward(query_GKTD, key_GKTD[prefix], value_GKTD[prefix], 0.0,
                                       False, scale=scale)
        own_GKT, lse_GKT = lse_GKT, torch.logaddexp(lse_GKT, seen_GKT)
        output_GKTD = (output_GKTD * _share(own_GKT, lse_GKT)
                       + seen_GKTD * _share(seen_GKT, lse_GKT)).to(query_1HTD.dtype)
    return output_GKTD, lse_GKT


@_attend.register_fake
def _(query_1HTD, key_1HTD, value_1HTD, scale):
    query_GKTD, _, _ = _by_group(query_1HTD, key_1HTD, value_1HTD)
    groups, heads, tokens, width = query_GKTD.shape
    sums = torch.float64 if query_GKTD.dtype == torch.float64 else torch.float32
    return (query_GKTD.new_empty(groups, tokens, heads, width).transpose(1, 2),
            query_GKTD.new_empty(groups, tokens, heads, dtype=sums).transpose(1, 2))


def _by_group(query_1HTD, key_1HTD, value_1HTD):
    """Queries that share keys are apart in the first dimension: so keys need no copies."""
    query_GKTD = query_1HTD[0].unflatten(0, (key_1HTD.shape[1], -1)).transpose(0, 1)
    groups = query_GKTD.shape[0]
    return (query_GKTD, key_1HTD.expand(groups, -1, -1, -1), value_1HTD.expand(groups, -1, -1, -1))


def _halves(query_1HTD, key_1HTD):
    """Indices of the keys: own ones, and those of the prefix."""
    prefix = key_1HTD.shape[2] - query_1HTD.shape[2]
    return (..., slice(prefix, None), slice(None)), (..., slice(0, prefix), slice(None))


def _share(some_GKT, all_GKT):
    """The part of the softmax of all keys that some of them have."""
    return (some_GKT - all_GKT).exp()[..., None]
