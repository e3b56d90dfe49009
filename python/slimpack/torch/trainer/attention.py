"""Attention of a pack, document by document, with the model's own rules and arithmetic.

transformers builds a mask of a whole pack, whose size and work grow with the square of its tokens. Here
the mask stands for one mask of each document, which transformers' own code makes of the family's rule, and
the attention function runs the family's own on each document. A document that sees all tokens before it
needs no mask where torch's kernels know that.

Within `packed` this holds; at other times both are what the model had.
"""

import contextlib
import contextvars
import functools
import sys

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import eager_mask, sdpa_mask

OURS = {"sdpa": "slimpack_documents_sdpa", "eager": "slimpack_documents_eager"}  # by what the model had

_lengths = contextvars.ContextVar("lengths", default=None)


@contextlib.contextmanager
def packed(batch):
    """Forward passes within it are of this batch of PackedCollator."""
    token = _lengths.set(batch["cu_seq_lens_q"].diff().tolist())
    try:
        yield
    finally:
        _lengths.reset(token)


class DocumentMasks:
    """A mask of each document of a pack, where attention looks for one of the pack. A model may slice it."""

    def __init__(self, lengths, of_document):
        self.lengths, self._of_document = lengths, of_document

    def __getitem__(self, index):
        return self

    @functools.cached_property
    def masks(self):
        """By document; None: it sees all tokens before it."""
        begins = [sum(self.lengths[:number]) for number in range(len(self.lengths))]
        return [self._of_document(begin, length) for begin, length in zip(begins, self.lengths, strict=True)]


def _mask(make, skips_causal, *, q_length, kv_length, q_offset=0, kv_offset=0, mask_function, use_vmap=False,
          device="cpu", **options):
    lengths = _lengths.get()
    of_pack = functools.partial(make, mask_function=mask_function, use_vmap=use_vmap, device=device, **options)
    if lengths is None or not sum(lengths) == q_length == kv_length:
        return of_pack(q_length=q_length, kv_length=kv_length, q_offset=q_offset, kv_offset=kv_offset)

    def of_document(begin, length):
        if skips_causal and not use_vmap and _sees_all_before(mask_function, begin, length, device):
            return None
        skip = {"allow_is_causal_skip": False} if "allow_is_causal_skip" in options else {}
        return of_pack(q_length=length, kv_length=length, q_offset=begin, kv_offset=begin, **skip)

    return DocumentMasks(lengths, of_document)


def _sees_all_before(rule, begin, length, device):
    """Whether a document's tokens see all before them, by the first, the middle and the last one: the windows,
    blocks and distances of transformers' rules hide something from the last one, if from any."""
    keys = torch.arange(begin, begin + length, device=device)
    rows = begin + torch.tensor(sorted({0, length // 2, length - 1}), device=device)
    first = torch.zeros(1, 1, dtype=torch.int64, device=device)
    return bool((rule(first, first, rows[:, None], keys[None]) == (keys[None] <= rows[:, None])).all())


def _attend(own, module, query, key, value, attention_mask, **options):
    function = own(module)
    if not isinstance(attention_mask, DocumentMasks):
        return function(module, query, key, value, attention_mask, **options)
    lengths = attention_mask.lengths
    outputs = []
    for *part, mask in zip(query.split(lengths, 2), key.split(lengths, 2), value.split(lengths, 2),
                           attention_mask.masks, strict=True):
        causal = {"is_causal": True} if mask is None else {}
        outputs.append(function(module, *part, mask, **options | causal)[0])
    return torch.cat(outputs, 1), None


def _eager(module):
    """The family's arithmetic: soft-capping, sinks and what else it has."""
    return sys.modules[type(module).__module__].eager_attention_forward


AttentionMaskInterface.register(OURS["sdpa"], functools.partial(_mask, sdpa_mask, True))
AttentionMaskInterface.register(OURS["eager"], functools.partial(_mask, eager_mask, False))
AttentionInterface.register(OURS["sdpa"], functools.partial(_attend, lambda module: sdpa_attention_forward))
AttentionInterface.register(OURS["eager"], functools.partial(_attend, _eager))
