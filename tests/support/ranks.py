"""Functions that run as the ranks of a job: processes that fork (forking.py)."""

import datetime
import os
import time
import traceback
from multiprocessing.connection import wait

import torch
import torch.distributed as dist
from forking import context
from processes import PATIENCE, free_port

_KILLED = True, ("Killed", "", "")


class Ranks:
    """A job of `world` ranks that run one function after another. Used as a context it ends
    them."""

    def __init__(self, world):
        self._world, self._processes, self._connections = world, [], []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._end()

    def outcomes(self, function, *arguments):
        """By rank (whether it raised, what it returned or (kind, message, trace)); a rank that was
        killed has raised ("Killed", "", ""). Where one raised, the next call starts a new job."""
        whole = False
        try:
            if not self._processes:
                self._start()
            for connection in self._connections:
                connection.send((function, arguments))
            found = self._answers()
            whole = not any(failed for failed, _ in found)
        finally:
            if not whole:
                self._end()
        return found

    def run(self, function, *arguments):
        """By rank what function(*arguments) returned."""
        found = self.outcomes(function, *arguments)
        traces = [f"rank {rank}: {result[2] or result[0]}"
                  for rank, (failed, result) in enumerate(found) if failed]
        assert not traces, "\n".join(traces)
        return [result for _, result in found]

    def _start(self):
        port = free_port()
        for rank in range(self._world):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(rank, self._world, port, theirs))
            process.start()
            theirs.close()  # so that a rank's end is seen
            self._processes.append(process)
            self._connections.append(ours)

    def _answers(self):
        got, end = {}, time.monotonic() + PATIENCE
        while waiting := [c for c in self._connections if c not in got]:
            ready = wait(waiting, timeout=end - time.monotonic())
            assert ready, f"ranks hang: {[self._connections.index(c) for c in waiting]}"
            for connection in ready:
                try:
                    got[connection] = connection.recv()
                except (EOFError, ConnectionError):
                    got[connection] = _KILLED
        return [got[connection] for connection in self._connections]

    def _end(self):
        for process, connection in zip(self._processes, self._connections, strict=True):
            process.kill()
            process.join()
            connection.close()
        self._processes, self._connections = [], []


def _serve(rank, world, port, connection):
    """Runs what comes, until a function raises. Each has process groups of its own."""
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), GLOO_SOCKET_IFNAME="lo")
    patience = datetime.timedelta(seconds=PATIENCE)
    store = dist.TCPStore("127.0.0.1", port, world, is_master=rank == 0, timeout=patience)
    failed, number = False, 0
    while not failed:
        function, arguments = connection.recv()
        if dist.is_initialized():
            dist.destroy_process_group()  # by now nobody needs that of the function before
        dist.init_process_group("gloo", timeout=patience, rank=rank, world_size=world,
                                store=dist.PrefixStore(str(number), store))
        try:
            result = function(*arguments)
        except BaseException as error:
            result, failed = (type(error).__name__, str(error), traceback.format_exc()), True
        connection.send((failed, result))
        number += 1
    os._exit(0)


def outcomes(world, function, *arguments):
    """The Ranks.outcomes of a job for this function alone."""
    with Ranks(world) as ranks:
        return ranks.outcomes(function, *arguments)


def run(world, function, *arguments):
    """The result of Ranks.run in a job for this function alone."""
    with Ranks(world) as ranks:
        return ranks.run(function, *arguments)
