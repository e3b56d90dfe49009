"""The GPU of one process among several on a machine."""

import os
import sys

import torch

INVALID_INPUT = 2  # exit code


def set_cuda_defaults():
    """Settings of the process for CUDA, which reads them when it is first used; none replaces what
    the user has set. Segments of the allocator grow, so that MicroPacks of many sizes leave few
    gaps. All kernels are loaded at once: the first use of one would else wait for all work on the
    GPU, where a message may wait for that use. Work of all streams has queues of its own, up to 32:
    a rank has one for each of its groups, and with eight of them one waits behind another's."""
    if "PYTORCH_ALLOC_CONF" not in os.environ:
        os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")


def take_gpu(remedy):
    """Makes the GPU of LOCAL_RANK, which torchrun sets, this process's own; without it the first
    one. Where there is no such GPU, ends the process with one line and exit code 2.

    remedy: what else the user could do, such as "set train.device to cpu".
    """
    set_cuda_defaults()
    number, gpus = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
    if number >= gpus:
        print(f"slimpack: process {number} of this machine has no GPU, it finds {gpus}; start one "
              f"process for each GPU (--nproc-per-node), or {remedy}", file=sys.stderr)
        sys.exit(INVALID_INPUT)
    torch.cuda.set_device(number)
