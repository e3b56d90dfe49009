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
    heads = key_1HTD.shape[1]
    # Queries that share keys differ in the batch dimension: so keys need no copies.
    query_GKTD = query_1HTD[0].unflatten(0, (heads, -1)).transpose(0, 1)
    groups = query_GKTD.shape[0]
    output_GKTD = _PrefixAttention.apply(query_GKTD, key_1HTD.expand(groups, -1, -1, -1),
                                         value_1HTD.expand(groups, -1, -1, -1), scale)
    return output_GKTD.permute(2, 1, 0, 3).flatten(1, 2)[None]


class _PrefixAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query_BHTD, key_BHTD, value_BHTD, scale):
        prefix = key_BHTD.shape[2] - query_BHTD.shape[2]
        output_BHTD, lse_BHT = _forward(query_BHTD, key_BHTD[:, :, prefix:],
                                        value_BHTD[:, :, prefix:], 0.0, True, scale=scale)
        if prefix:
            own_BHTD, own_BHT = output_BHTD, lse_BHT
            seen_BHTD, seen_BHT = _forward(query_BHTD, key_BHTD[:, :, :prefix],
                                           value_BHTD[:, :, :prefix], 0.0, False, scale=scale)
            lse_BHT = torch.logaddexp(own_BHT, seen_BHT)
            output_BHTD = (own_BHTD * _share(own_BHT, lse_BHT)
                           + seen_BHTD * _share(seen_BHT, lse_BHT)).to(query_BHTD.dtype)
        ctx.save_for_backward(query_BHTD, key_BHTD, value_BHTD, output_BHTD, lse_BHT)
        ctx.scale = scale
        return output_BHTD

    @staticmethod
    def backward(ctx, grad_BHTD):
        query_BHTD, key_BHTD, value_BHTD, output_BHTD, lse_BHT = ctx.saved_tensors
        prefix = key_BHTD.shape[2] - query_BHTD.shape[2]

        def gradients(keys, causal):
            return _backward(grad_BHTD, query_BHTD, key_BHTD[:, :, keys], value_BHTD[:, :, keys],
                             output_BHTD, lse_BHT, 0.0, causal, scale=ctx.scale)

        query, key, value = gradients(slice(prefix, None), True)
        if prefix:
            of_query, of_key, of_value = gradients(slice(0, prefix), False)
            query, key, value = (query + of_query, torch.cat([of_key, key], 2),
                                 torch.cat([of_value, value], 2))
        return query, key, value, None


def _share(some_BHT, all_BHT):
    """Of the softmax of all keys the part that some have."""
    return (some_BHT - all_BHT).exp()[..., None]
