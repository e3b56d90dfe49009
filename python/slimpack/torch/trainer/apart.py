"""Proves that a model keeps the documents of a pack apart, and lets it attend document by document."""

import torch

from slimpack import InvalidInput
from slimpack.torch.collator import PackedCollator
from slimpack.torch.trainer.attention import OURS, packed

_TOKENS = 12  # of each of two documents
# Rounding may change so much of the spread of logits where a document runs in a row of another length, and a tenth
# of it in a row of the same length.
_ROUNDING = {torch.float64: 1e-4, torch.float32: 1e-2, torch.float16: 5e-2, torch.bfloat16: 0.2}


def keep_apart(forward, base, documents, dtype):
    """Lets the model attend by document where it gives the same logits so; then two documents of a pack must
    have the logits that each of them has alone.

    forward: gives the logits of a batch. base: the transformers model in it, whose attention is chosen.
    documents: two lists of token ids. dtype: in which it computes.

    Raises InvalidInput for a model that mixes documents.
    """
    pair = [list(map(int, ids[:_TOKENS])) for ids in documents[:2]]
    theirs, rounding = base.config._attn_implementation, _ROUNDING[dtype]
    if theirs in OURS and base._supports_attention_backend:
        base.set_attn_implementation(OURS[theirs])
        try:
            if _change(forward, *pair) <= rounding:
                return
        except (AttributeError, TypeError, KeyError, ValueError, RuntimeError):
            pass  # a family that computes with its mask, or attends in another way
        base.set_attn_implementation(theirs)
    change = _change(forward, *pair)
    if not change <= rounding:
        raise InvalidInput(
            f"{type(base).__name__} with attention '{theirs}' mixes the documents of a pack: its logits change "
            f"beside another document, by {change:.2g} of their spread; load it with attn_implementation='sdpa' or a "
            "FlashAttention, or train it without packing")


def _change(forward, first, second):
    """By how much of their spread logits differ in a pack from those alone, and ten times as much for those of the
    second document when the first one is replaced."""
    alone = torch.cat([_logits(forward, first), _logits(forward, second)])
    together = _logits(forward, first, second)
    other = (second[::-1] * len(first))[:len(first)]
    replaced = _logits(forward, other, second)
    leaked = (replaced - together)[len(first):].abs().max()
    return (torch.maximum((together - alone).abs().max(), 10 * leaked) / alone.std()).item()


def _logits(forward, *documents):
    batch = PackedCollator()([{"input_ids": ids} for ids in documents])
    with packed(batch):
        return forward({name: value for name, value in batch.items() if name != "labels"})[0].double()
