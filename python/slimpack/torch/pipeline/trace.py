"""Records when a rank did what, in the form that slimpack draws (slimpack/trace/timeline.h)."""

import contextlib
import json
import time

import torch

# Kinds of spans, as timelines name them.
RUN = {"F": "forward", "B": "backward"}
WAIT_RECEIVE, WAIT_SEND, REDUCE, OPTIMIZER = "wait_receive", "wait_send", "reduce", "optimizer"


class Recorder:
    """Spans of one step: (kind, MicroPack or -1, start, end) in nanoseconds from its start. On a
    GPU they are times of the device."""

    def __init__(self, device):
        self._device, self._marks = device, []
        self._start = self._mark()

    @contextlib.contextmanager
    def span(self, kind, pack=-1):
        start = self._mark()
        yield
        self._marks.append((kind, pack, start, self._mark()))

    def spans(self):
        return [(kind, pack, self._since_start(start), self._since_start(end))
                for kind, pack, start, end in self._marks]

    def _mark(self):
        if self._device.type != "cuda":
            return time.perf_counter_ns()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _since_start(self, mark):
        if self._device.type != "cuda":
            return mark - self._start
        mark.synchronize()
        return round(self._start.elapsed_time(mark) * 1e6)


def timeline_json(spans_of_ranks, peak_bytes, replicas):
    """A measured timeline as `slimpack` reads it. Both lists are by rank: replica · stages +
    stage."""
    spans = [[rank, *span] for rank, spans in enumerate(spans_of_ranks) for span in spans]
    return json.dumps({"format": "slimpack-timeline", "version": 3, "origin": "measured",
                       "ranks": len(spans_of_ranks), "replicas": replicas, "tensor": 1,
                       "spans": spans, "memory": [], "peak_activation": peak_bytes}) + "\n"
