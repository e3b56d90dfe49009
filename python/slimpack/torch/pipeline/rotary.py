"""Rotary positions whose frequencies depend on a document's length ("longrope").

transformers takes the length from the highest position of a call. A call here holds slices of
several documents, so each slice is asked about by itself, with its document's last position.
"""

import torch


def by_document(decoder, running):
    """Makes a decoder's longrope modules ask about each document by itself, where the work that
    runs knows the documents."""
    for module in decoder.modules():
        kind = getattr(module, "rope_type", None)
        if kind == "longrope" or isinstance(kind, dict) and "longrope" in kind.values():
            module.forward = _ByDocument(module.forward, running)


class _ByDocument:
    def __init__(self, whole, running):
        self._whole, self._running = whole, running

    def __call__(self, x, position_ids, *args, **kwargs):
        pieces = []
        for sequence, begin, end in self._running.work.pack.slices:
            last = self._running.work.key_values.lengths[sequence] - 1
            positions = torch.tensor([[*range(begin, end), last]], device=position_ids.device)
            pieces.append([part[:, :-1] for part in self._whole(x, positions, *args, **kwargs)])
        return tuple(torch.cat(parts, 1) for parts in zip(*pieces, strict=True))
