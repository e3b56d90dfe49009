"""Layers whose backward computes again what needs no matrix product.

Such a layer runs under torch's selective checkpoint: results of matrix products and of attention
kernels are kept; norms, activations, rotary positions and products of elements are computed again.
"""

import collections

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
    # A tensor that is written into is kept together with the values that were written (_Choice).
    choice = _Choice()
    contexts = create_selective_checkpoint_contexts(choice, allow_cache_entry_mutation=True)
    choice.results = contexts[0].storage
    return contexts


class _Choice:
    """Decides which results of one run of a layer are kept.

    Releases of torch before 2.13 ask before an operation runs, and once more when backward runs it
    again. results: by operation what these have kept.
    """

    def __init__(self):
        self.results = {}
        self._kept = set()  # storages, which live as long as this
        self._made = collections.defaultdict(collections.deque)  # by operation, for the second time

    def __call__(self, context, op, *args, **kwargs):
        if context.is_recompute:
            return self._made[op].popleft()
        # A bias that is added in place is in what was kept, and must not be added to it again.
        changes = op._schema.is_mutable and not self._storages_kept(context).isdisjoint(_storages(args[:1]))
        if not changes and not _keeps(op._schema.name, args):
            policy = CheckpointPolicy.PREFER_RECOMPUTE
        else:
            policy = CheckpointPolicy.MUST_SAVE
            self._kept |= _storages(getattr(context, "op_output", None))
        self._made[op].append(policy)
        return policy

    def _storages_kept(self, context):
        if hasattr(context, "op_output"):  # then every kept result has been given
            return self._kept
        wrapped = (leaf for of_op in self.results.values() for leaf in tree_leaves(of_op))
        return self._kept | _storages([leaf.val for leaf in wrapped if hasattr(leaf, "val")])


def _keeps(name, args):
    """Whether an operation's result is kept. The result of a batched product is not kept if it is
    larger than its factors: the scores of long slices."""
    if name in _BATCHED_PRODUCTS:
        a_BNM, b_BMK = args[-2:]
        result = a_BNM.shape[0] * a_BNM.shape[1] * b_BMK.shape[2]
        return result <= a_BNM.numel() + b_BMK.numel()
    return name in _PRODUCTS or name in _ATTENTION


def _storages(tree):
    return {leaf.untyped_storage()._cdata for leaf in tree_leaves(tree)
            if isinstance(leaf, torch.Tensor)}
