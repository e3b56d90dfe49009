"""Functions that run as the ranks of a job: processes that fork from one which has imported all they
need, so that a job starts in moments."""

import datetime
import multiprocessing
import os
import queue
import sys
import time
import traceback

import torch
import torch.distributed as dist
from processes import PATIENCE, free_port

# The server of forks starts without this process's sys.path.
os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["torch", "torch.distributed.checkpoint", "torch.distributed.fsdp",
                                 "transformers", "slimpack.torch.pipeline"])


def _rank(function, rank, world, port, results, arguments):
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    try:
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=PATIENCE))
        result, failed = function(*arguments), False
    except BaseException as error:
        result, failed = (type(error).__name__, str(error), traceback.format_exc()), True
    results.put((rank, failed, result))
    results.close()
    results.join_thread()
    os._exit(0)


def outcomes(world, function, *arguments):
    """By rank (whether it raised, what it returned or (kind, message, trace))."""
    results, port = _context.Queue(), free_port()
    ranks = [_context.Process(target=_rank, args=(function, rank, world, port, results, arguments))
             for rank in range(world)]
    for process in ranks:
        process.start()
    try:
        got = sorted(_next(results, ranks) for _ in ranks)
    finally:
        for process in ranks:
            process.kill()
            process.join()
    return [(failed, result) for _, failed, result in got]


def _next(results, ranks):
    end = time.monotonic() + PATIENCE
    while True:
        running = any(process.is_alive() for process in ranks)
        try:
            return results.get(timeout=1)
        except queue.Empty:
            assert running and time.monotonic() < end, "a rank ended without a result, or hangs"


def run(world, function, *arguments):
    """By rank what function(*arguments) returned, on a job of that many ranks."""
    found = outcomes(world, function, *arguments)
    for rank, (failed, result) in enumerate(found):
        assert not failed, f"rank {rank}: {result[2]}"
    return [result for _, result in found]
