"""The GPU of one process among several on a machine."""

import os
import sys

import torch

INVALID_INPUT = 2  # exit code


def take_gpu(remedy):
    """Makes the GPU of LOCAL_RANK, which torchrun sets, this process's own; without it the first
    one. Where there is no such GPU, ends the process with one line and exit code 2.

    remedy: what else the user could do, such as "set train.device to cpu".
    """
    number, gpus = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
    if number >= gpus:
        print(f"slimpack: process {number} of this machine has no GPU, it finds {gpus}; start one "
              f"process for each GPU (--nproc-per-node), or {remedy}", file=sys.stderr)
        sys.exit(INVALID_INPUT)
    torch.cuda.set_device(number)
