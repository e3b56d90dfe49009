"""Clocks that measure passes."""

import time

import torch

from slimpack import InvalidInput


class Clock:
    """Measures what a device was given to do: on a GPU by events in its queue, elsewhere by a
    clock.

    kind: "wall", or "processor": processor time of this process, whatever else the machine does.
    """

    def __init__(self, device, kind="wall"):
        if kind not in ("wall", "processor"):
            raise InvalidInput(f"clock is {kind!r}, must be \"wall\" or \"processor\"")
        if kind == "processor" and device.type != "cpu":
            raise InvalidInput(
                f"clock is \"processor\" and the device is {device}, which works beside the "
                "processor; take clock=\"wall\"")
        self._device = device
        self._read = time.perf_counter_ns if kind == "wall" else time.process_time_ns

    def timed(self, run):
        """(what run() returns, the nanoseconds that it takes)."""
        if self._device.type == "cuda":
            return self._timed_by_events(run)
        begin = self._read()
        result = run()
        return result, self._read() - begin

    def _timed_by_events(self, run):
        """Without the time that the processor takes to notice the end."""
        with torch.cuda.device(self._device):  # whose queue events go to
            torch.cuda.synchronize()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            result = run()
            end.record()
            end.synchronize()
        return result, round(1e6 * begin.elapsed_time(end))  # events count milliseconds
