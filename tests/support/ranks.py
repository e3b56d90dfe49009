"""Functions that run as the ranks of a job: processes that fork from one which has imported all
they need, so that a job starts in moments."""

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
    """By rank (whether it raised, what it returned or (kind, message, trace)); a rank that was
    killed has raised ("Killed", "", "")."""
    results, port = _context.Queue(), free_port()
    ranks = [_context.Process(target=_rank, args=(function, rank, world, port, results, arguments))
             for rank in range(world)]
    for process in ranks:
        process.start()
    try:
        got = _collected(results, ranks)
    finally:
        for process in ranks:
            process.kill()
            process.join()
    return [got.get(rank, (True, ("Killed", "", ""))) for rank in range(world)]


def _collected(results, ranks):
    """By rank what came, until all ranks have ended."""
    got, end = {}, time.monotonic() + PATIENCE
    while len(got) < len(ranks):
        running = any(process.is_alive() for process in ranks)
        try:
            rank, *outcome = results.get(timeout=0.5)
            got[rank] = tuple(outcome)
        except queue.Empty:
            if not running:
                break
            assert time.monotonic() < end, f"ranks hang; there are results of {sorted(got)}"
    return got


def run(world, function, *arguments):
    """By rank what function(*arguments) returned, on a job of that many ranks."""
    found = outcomes(world, function, *arguments)
    for rank, (failed, result) in enumerate(found):
        assert not failed, f"rank {rank}: {result[2]}"
    return [result for _, result in found]
