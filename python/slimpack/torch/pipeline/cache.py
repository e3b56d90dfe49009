"""The past_key_values that a stage hands to its layers."""

import torch

from slimpack.torch.pipeline.states import CONVOLUTION, RECURRENT


class Running:
    """The work that the layers of a stage do now; autograd's own threads see it, too."""

    work = None
    offsets_T = 0  # of the work's rows: position in the document less number of the row


class _LayerCaches:
    """In place of a cache's list of layers: some families ask one of them by itself."""

    def __init__(self, cache):
        self._cache = cache

    def __getitem__(self, layer):
        return _LayerCache(self._cache, layer)

    def __len__(self):
        return 0


class _LayerCache:
    def __init__(self, cache, layer):
        self._cache, self._layer = cache, layer

    def update_index(self, key_11TD):
        return self._cache.update_indexer(key_11TD[:, 0], self._layer)[:, None]


class SliceCache:
    """The part of transformers' Cache that decoders use."""

    is_compileable, is_sliding = False, (False,)

    def __init__(self, running):
        self._running, self.layers = running, _LayerCaches(self)

    @torch.compiler.disable
    def update(self, key_states, value_states, layer_idx, *_, **__):
        return self._running.work.update(key_states, value_states, layer_idx)

    # Mixers ask for the states before their tokens, and hand over those after them.
    def get_conv_state(self, layer_idx, state_idx=0):
        return self._running.work.segment.enter((layer_idx, CONVOLUTION, state_idx))

    def update_conv_state(self, conv_states, layer_idx, state_idx=0, conv_kernel_size=None, **__):
        key, size = (layer_idx, CONVOLUTION, state_idx), conv_kernel_size or conv_states.shape[-1]
        return self._running.work.segment.convolve(key, conv_states, size)

    def get_recurrent_state(self, layer_idx, state_idx=0):
        return self._running.work.segment.enter((layer_idx, RECURRENT, state_idx))

    def update_recurrent_state(self, recurrent_states, layer_idx, state_idx=0, **__):
        return self._running.work.segment.leave((layer_idx, RECURRENT, state_idx), recurrent_states)

    def has_previous_state(self, *_, **__):
        return False

    @torch.compiler.disable
    def update_indexer(self, key_states, layer_idx):
        return self._running.work.update_indexer(key_states, layer_idx)

    # Masks are asked about positions in a document, not about those in a cache.
    def get_seq_length(self, layer_idx=None, **__):
        # A layer adds it to its row numbers.
        return 0 if layer_idx is None else self._running.offsets_T

    def get_query_offset(self, *_, **__):
        return 0

    def get_mask_sizes(self, query_length, *_, **__):
        return query_length, 0

    def __len__(self):
        return 0

    def __bool__(self):
        return True
