"""The cross entropy with a distribution instead of a token, without further tensors of rows times
vocabulary: rows are taken in blocks that a core's cache holds, and backward computes a block's softmax
again."""

import torch

_ROWS = 64


def soft_cross_entropy(logits_RV, p_TV, place_R):
    """By row −Σ p log softmax(logits), where p is row place_R of p_TV. In fp32, or fp64 if one is."""
    return _SoftCrossEntropy.apply(logits_RV, p_TV, place_R)


class _SoftCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits_RV, p_TV, place_R):
        lse, entropy = [], []
        for logits, place in zip(logits_RV.split(_ROWS), place_R.split(_ROWS), strict=True):
            logits = logits.to(p_TV.dtype)
            lse.append(logits.logsumexp(-1))
            entropy.append(lse[-1] - (p_TV[place] * logits).sum(-1))  # Σ p = 1
        ctx.save_for_backward(logits_RV, p_TV, place_R, torch.cat(lse))
        return torch.cat(entropy)

    @staticmethod
    def backward(ctx, gradient_R):
        logits_RV, p_TV, place_R, lse_R = ctx.saved_tensors
        gradient_RV = torch.empty_like(logits_RV)
        of_block = zip(gradient_RV.split(_ROWS), logits_RV.split(_ROWS), place_R.split(_ROWS),
                       lse_R.split(_ROWS), gradient_R.split(_ROWS), strict=True)
        for out, logits, place, lse, gradient in of_block:
            softmax = (logits.to(p_TV.dtype) - lse[:, None]).exp_()
            out.copy_(softmax.sub_(p_TV[place]).mul_(gradient[:, None]))
        return gradient_RV, None, None
