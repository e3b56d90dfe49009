"""Runs the modules of layers that have states, one document at a time or by documents' bounds."""

from typing import NamedTuple

import torch
from torch.nn import functional

from slimpack.torch.pipeline.layers import first_argument, with_first_argument
from slimpack.torch.pipeline.packs import BACKWARD, FORWARD
from slimpack.torch.pipeline.scans import running_on, wrap_scans
from slimpack.torch.pipeline.states import Segment


class WholeDocuments(NamedTuple):
    """Documents of a MicroPack that no state enters and that leave none.

    numbers: of their slices. bounds: the options of transformers' mixers that keep them apart in one
        call, on the device.
    """

    numbers: tuple[int, ...]
    bounds: dict[str, torch.Tensor]


def whole_documents(work, device):
    """The WholeDocuments of a SliceWork; None where there are less than two."""
    found = {number: part.end for number, part in enumerate(work.pack.slices)
             if work.key_values.states.is_whole(part, work.forward)}
    if len(found) < 2:
        return None
    lengths = torch.tensor(list(found.values()))
    of_row_1T = torch.arange(len(found), dtype=torch.int32).repeat_interleave(lengths)[None]
    begins = functional.pad(lengths.cumsum(0), (1, 0))
    return WholeDocuments(tuple(found), {"seq_idx": of_row_1T.to(device),
                                         "cu_seq_lens_q": begins.to(device)})


class ByDocument:
    """A mixer's forward, from state to state.

    Torch's own scans refuse rows of several documents, and kernels that take them have no state of a
    convolution for each. A document that is whole in its slice runs without a cache, as in plain
    training; all of these in one call where the kernels take bounds.
    """

    def __init__(self, mixer, running, cache):
        self._mixer, self._own, self._running, self._cache = mixer, mixer.forward, running, cache
        self.scans = wrap_scans(mixer)

    @torch.compiler.disable
    def __call__(self, *args, **kwargs):
        work, hidden_1TD = self._running.work, first_argument(args, kwargs)
        parts = work.pack.slices
        rows = hidden_1TD.split([part.end - part.begin for part in parts], 1)
        outputs = {}  # by number of a slice
        if work.whole is not None and self.scans.keep_apart(hidden_1TD):
            outputs = self._run_together(work.whole, rows, args, kwargs)
        trained = torch.is_grad_enabled() and self._is_trained(hidden_1TD)
        for number in range(len(parts)):
            if number not in outputs:
                outputs[number] = self._run_slice(parts[number], rows[number], trained, args, kwargs)
        return torch.cat([outputs[number] for number in range(len(parts))], 1)

    def _run_together(self, whole, rows, args, kwargs):
        """By number of a slice its rows, of one call."""
        mine = [rows[number] for number in whole.numbers]
        args, kwargs = self._without_cache(*with_first_argument(torch.cat(mine, 1), args, kwargs))
        output_1TD = self._own(*args, **kwargs, **whole.bounds)
        lengths = [of_one.shape[1] for of_one in mine]
        return dict(zip(whole.numbers, output_1TD.split(lengths, 1), strict=True))

    def _run_slice(self, part, rows_1TD, trained, args, kwargs):
        work, outputs = self._running.work, []
        states, passes = work.key_values.states, FORWARD if work.forward else BACKWARD
        for begin, end in states.pieces(part, work.forward):
            mine_1TD = rows_1TD[:, begin - part.begin:end - part.begin]
            segment = Segment(states, passes, (part.sequence, begin, end), rows_1TD.device,
                              trained=trained, withhold=self.scans.exist)
            outputs.append(self._run(segment, *with_first_argument(mine_1TD, args, kwargs)))
        return torch.cat(outputs, 1)

    def _run(self, segment, args, kwargs):
        if segment.begin == 0 and not segment.leaves:
            args, kwargs = self._without_cache(args, kwargs)
            return self._own(*args, **kwargs)
        work = self._running.work
        work.segment = segment
        try:
            with running_on(segment):
                return segment.finish(self._own(*args, **kwargs))
        finally:
            work.segment = None

    def _without_cache(self, args, kwargs):
        return ([None if value is self._cache else value for value in args],
                {name: None if value is self._cache else value for name, value in kwargs.items()})

    def _is_trained(self, hidden_1TD):
        return hidden_1TD.requires_grad or any(p.requires_grad for p in self._mixer.parameters())
