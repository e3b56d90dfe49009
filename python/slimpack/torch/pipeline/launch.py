"""Runs a program as one rank of a job that torchrun starts."""

import datetime
import os
import sys
import traceback

import torch
import torch.distributed as dist

from slimpack import InvalidInput
from slimpack.connections import connecting_late
from slimpack.own_gpu import INVALID_INPUT, set_cuda_defaults, take_gpu
from slimpack.torch.pipeline.failure import RunFailed, end_of_job
from slimpack.torch.pipeline.flash_release import activate_newest

FAILED, INTERRUPTED = 1, 130  # exit codes
_EXPECTED = (InvalidInput, RunFailed, OSError)  # others are errors in a program


def launch(main, *, timeout=datetime.timedelta(minutes=5)):
    """Runs main() with this process's rank, on the CPU or, where there are GPUs, on that of
    LOCAL_RANK. Ends the process: exit code 0, 2 for bad input, 1 for a run that fails, 130
    for one that SIGINT has ended.

    Outside of torchrun there is one rank. The first rank that fails prints its cause in one line;
    an error in the program itself prints a trace.
    """
    missing = [name for name in ("RANK", "WORLD_SIZE") if name not in os.environ]
    if missing:  # no torchrun
        os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    set_cuda_defaults()  # which asking for a GPU may read
    if torch.cuda.is_available():
        take_gpu("hide all of them to train on the CPU (CUDA_VISIBLE_DEVICES=)")
        line = activate_newest()
        if line and os.environ["RANK"] == "0":
            print(line, file=sys.stderr, flush=True)
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    with connecting_late():
        dist.init_process_group(backend, timeout=timeout)
    code = _code_of(main)
    sys.stdout.flush()
    sys.stderr.flush()
    if code:
        os._exit(code)  # connections of a job that failed may never close
    dist.destroy_process_group()
    sys.exit(0)


def _code_of(main):
    try:
        main()
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        code = INVALID_INPUT if isinstance(error, InvalidInput) else FAILED
        tells, code = end_of_job(error, code)
        if not tells:
            return code
        if isinstance(error, _EXPECTED):
            cause = str(error).strip() or type(error).__name__
            print(f"slimpack: {cause.splitlines()[0]}", file=sys.stderr)
        else:
            traceback.print_exception(error)
        return code
    return 0
