"""The past_key_values that a stage hands to its layers."""

import torch


class Running:
    """The work that the layers of a stage do now; autograd's own threads see it, too."""

    work = None
    offsets_T = 0  # of the work's rows: position in the document less number of the row


class SliceCache:
    """The part of transformers' Cache that decoders use."""

    is_compileable, layers, is_sliding = False, (), (False,)

    def __init__(self, running):
        self._running = running

    @torch.compiler.disable
    def update(self, key_states, value_states, layer_idx, *_, **__):
        return self._running.work.update(key_states, value_states, layer_idx)

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
