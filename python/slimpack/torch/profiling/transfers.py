"""Measures messages between neighbouring ranks, and copies between a GPU and host memory."""

import os
import time

import torch
import torch.distributed as dist

_SIZES = (1 << 10, 1 << 22)  # bytes: latency, and the time of a byte
_ROUNDS = 32
_COPIED = 1 << 28  # bytes of a copy that is measured


def measured_transfer(device):
    """(seconds of latency, seconds of a byte) between ranks 0 and 1, for every rank that calls."""
    figures = [0.0, 0.0]
    if dist.get_rank() < 2:
        small, large = _one_ways(device)
        per_byte = max(large - small, 0.0) / (_SIZES[1] - _SIZES[0])
        figures = [max(small - per_byte * _SIZES[0], 0.0), per_byte]
    result = torch.tensor(figures, dtype=torch.float64, device=device)
    dist.broadcast(result, 0)
    return tuple(result.tolist())


def _one_ways(device):
    """By size half of the fastest way there and back. Sizes take turns, so that what slows a
    machine for a moment hits both."""
    messages = [torch.zeros(size, dtype=torch.uint8, device=device) for size in _SIZES]
    fastest = [float("inf")] * len(_SIZES)
    for _ in range(_ROUNDS):
        for number, message in enumerate(messages):
            fastest[number] = min(fastest[number], _there_and_back(message) / 2)
    return fastest


def _there_and_back(message):
    rank, begin = dist.get_rank(), time.perf_counter()
    for sender in (0, 1):
        dist.send(message, 1 - rank) if rank == sender else dist.recv(message, 1 - rank)
    if message.is_cuda:
        torch.cuda.synchronize(message.device)
    return time.perf_counter() - begin


def host_fields(lone, clock):
    """Fields of a cost file about host memory, where what is offloaded waits; none on a CPU, whose memory
    it is. Half of the free memory is a rank's share to pin, as for slimpack train.

    lone: a LoneLayer, whose parameters an optimizer in host memory updates. Its time includes the
    ways of gradients and weights.
    """
    if lone.device.type != "cuda":
        return {}
    return {"host_per_byte": _copy_time(lone.device, clock), "host_memory": share_of_memory("SC_AVPHYS_PAGES") // 2,
            "host_optimizer": {"per_parameter": lone.optimizer_time(offload=True), "state_bytes": 0.0}}


def _copy_time(device, clock):
    """Nanoseconds of a byte to pinned memory or back, whichever takes longer."""
    pinned = torch.empty(_COPIED, dtype=torch.uint8, pin_memory=True)
    there = torch.empty_like(pinned, device=device)
    ways = ((pinned, there), (there, pinned))
    times = [[clock.timed(lambda: to.copy_(of, non_blocking=True))[1] for of, to in ways]
             for _ in range(4)]
    return max(map(min, zip(*times, strict=True))) / _COPIED


def share_of_memory(pages):
    """Bytes of host memory for each rank. pages: the name of os.sysconf that counts them."""
    processes = dist.get_world_size() if dist.is_initialized() else 1
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf(pages) // processes
