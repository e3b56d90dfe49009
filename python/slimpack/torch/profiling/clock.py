"""Clocks that measure passes."""

import time

import torch

from slimpack import InvalidInput


class Clock:
    """Nanoseconds, when what a device was given to do is done.

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

    def now(self):
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return self._read()
