"""Runs the modules of layers that have states one document at a time."""

import torch

from slimpack.torch.pipeline.layers import first_argument, with_first_argument
from slimpack.torch.pipeline.packs import BACKWARD, FORWARD
from slimpack.torch.pipeline.scans import running_on, wrap_scans
from slimpack.torch.pipeline.states import Segment


class ByDocument:
    """A mixer's forward, from state to state.

    Torch's own scans refuse rows of several documents, and kernels that take them have no state of a
    convolution for each. A document that is whole in its slice runs without a cache, as in plain
    training.
    """

    def __init__(self, mixer, running, cache):
        self._mixer, self._own, self._running, self._cache = mixer, mixer.forward, running, cache
        self._withhold = wrap_scans(mixer)

    @torch.compiler.disable
    def __call__(self, *args, **kwargs):
        work, hidden_1TD = self._running.work, first_argument(args, kwargs)
        states, passes = work.key_values.states, FORWARD if work.forward else BACKWARD
        trained = torch.is_grad_enabled() and self._is_trained(hidden_1TD)
        outputs, row = [], 0
        for part in work.pack.slices:
            for begin, end in states.pieces(part, work.forward):
                mine_1TD = hidden_1TD[:, row:row + end - begin]
                row += end - begin
                segment = Segment(states, passes, (part.sequence, begin, end), hidden_1TD.device,
                                  trained=trained, withhold=self._withhold)
                outputs.append(self._run(segment, *with_first_argument(mine_1TD, args, kwargs)))
        return torch.cat(outputs, 1)

    def _run(self, segment, args, kwargs):
        if segment.begin == 0 and not segment.leaves:
            args = [None if value is self._cache else value for value in args]
            return self._own(*args, **{name: None if value is self._cache else value
                                       for name, value in kwargs.items()})
        work = self._running.work
        work.segment = segment
        try:
            with running_on(segment):
                return segment.finish(self._own(*args, **kwargs))
        finally:
            work.segment = None

    def _is_trained(self, hidden_1TD):
        return hidden_1TD.requires_grad or any(p.requires_grad for p in self._mixer.parameters())
