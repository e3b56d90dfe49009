"""Figures of host memory, for a machine with a GPU: what is offloaded waits there."""

import os

import torch
import torch.distributed as dist

_COPIED = 1 << 28  # bytes of a copy that is measured


def host_fields(lone, clock):
    """Fields of a cost file; none on a CPU, whose memory it is.

    lone: a LoneLayer, whose parameters an optimizer in host memory updates. Its time includes the
    ways of gradients and weights.
    """
    if lone.device.type != "cuda":
        return {}
    return {"host_per_byte": _copy_time(lone.device, clock), "host_memory": _memory(),
            "host_optimizer": {"per_parameter": lone.optimizer_time(offload=True), "state_bytes": 0.0}}


def _copy_time(device, clock):
    """Nanoseconds of a byte to pinned memory or back, whichever takes longer."""
    pinned = torch.empty(_COPIED, dtype=torch.uint8, pin_memory=True)
    there = torch.empty_like(pinned, device=device)
    ways = ((pinned, there), (there, pinned))
    times = [[clock.timed(lambda: to.copy_(of, non_blocking=True))[1] for of, to in ways]
             for _ in range(4)]
    return max(map(min, zip(*times, strict=True))) / _COPIED


def _memory():
    """Half of the machine's memory is a rank's share to pin, as for slimpack train."""
    processes = dist.get_world_size() if dist.is_initialized() else 1
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") // 2 // processes
