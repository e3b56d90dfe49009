"""Layers whose backward computes again what needs no matrix product.

Such a layer runs under torch's selective checkpoint: results of matrix products and of attention
kernels are kept; norms, activations, rotary positions and products of elements are computed again.
"""

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

_PRODUCTS = {"aten::mm", "aten::addmm", "aten::_grouped_mm", "transformers::grouped_mm_fallback"}
_BATCHED_PRODUCTS = {"aten::bmm", "aten::baddbmm"}
_ATTENTION = {"aten::_scaled_dot_product_flash_attention",
              "aten::_scaled_dot_product_flash_attention_for_cpu",
              "aten::_scaled_dot_product_efficient_attention",
              "aten::_scaled_dot_product_cudnn_attention",
              "aten::_scaled_dot_product_fused_attention_overrideable",
              "aten::_flash_attention_forward", "slimpack::prefix_attention"}


class Selective:
    """A layer's forward; where the work that runs says so, under a selective checkpoint.

    The checkpoint is inside the layer's hooks, so backward does not run these again.
    """

    def __init__(self, forward, layer, running):
        self._forward, self._layer, self._running = forward, layer, running
        self._usual = forward

    def compile(self, **options):
        """Compiles the layer for wherever it does not run under a checkpoint, which has to see
        single operations. options: those of torch.compile."""
        self._usual = torch.compile(self._forward, **options)

    def __call__(self, *args, **kwargs):
        if self._layer not in self._running.work.elementwise:
            return self._usual(*args, **kwargs)
        return checkpoint(self._forward, *args, use_reentrant=False, preserve_rng_state=False,
                          context_fn=_contexts, **kwargs)


def _contexts():
    # What is written into is kept with what was written (_Choice).
    return create_selective_checkpoint_contexts(_Choice(), allow_cache_entry_mutation=True)


class _Choice:
    """Which results of one run of a layer are kept."""

    def __init__(self):
        self._kept = set()  # storages, which live as long as this

    def __call__(self, context, op, *args, **kwargs):
        # A bias that is added in place is in what was kept, and must not be added to it again.
        changes = op._schema.is_mutable and not self._kept.isdisjoint(_storages(args[:1]))
        if not changes and not _keeps(op._schema.name, args, context.op_output):
            return CheckpointPolicy.PREFER_RECOMPUTE
        self._kept |= _storages(context.op_output)
        return CheckpointPolicy.MUST_SAVE


def _keeps(name, args, result):
    """Whether an operation's result is kept. Of batched products not one that is larger than what
    it is made from: the scores of long slices."""
    if name in _BATCHED_PRODUCTS:
        return result.numel() <= sum(factor.numel() for factor in args[-2:])
    return name in _PRODUCTS or name in _ATTENTION


def _storages(tree):
    return {leaf.untyped_storage()._cdata for leaf in tree_leaves(tree)
            if isinstance(leaf, torch.Tensor)}
