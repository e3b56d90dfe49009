"""Processes that fork from one which has imported all they need, so that they start in moments: importing
torch takes a process two seconds, and ending with it another."""

import contextlib
import multiprocessing
import os
import runpy
import signal
import sys

from processes import Job, environment, free_port, node_size

# The server of forks starts without this process's sys.path.
os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["imported_once"])


class _Fork:
    """A fork that runs a command, with what processes.Job uses of subprocess.Popen."""

    def __init__(self, command, variables, log):
        self._process = context.Process(target=_become, args=(command, variables, log))
        self._process.start()
        self.pid = self._process.pid

    def poll(self):
        return self._process.exitcode

    def wait(self, timeout=None):
        self._process.join(timeout)

    def send_signal(self, how):
        if self.poll() is None:
            os.kill(self.pid, how)


def _become(command, variables, log):
    os.environ.update(variables)
    with open(log, "a") as out:
        for stream in (1, 2):
            os.dup2(out.fileno(), stream)
    if command[0] == "-m":
        sys.argv = command[1:]
        sys.modules.pop(command[1], None)  # runpy warns of a module that was imported before
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = command
        runpy.run_path(command[0], run_name="__main__")


@contextlib.contextmanager
def forked_job(folder, *commands, variables=()):
    """A processes.Job of one fork for each command, started as torchrun starts processes but sooner. A
    command is a script, or -m and a module, and its arguments. variables: of the environment, beside the
    usual ones."""
    port = free_port()
    log = folder / f"job-{port}.log"
    log.touch()
    processes = []
    try:
        for rank, command in enumerate(commands):
            place = dict(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(len(commands)),
                         LOCAL_WORLD_SIZE=str(node_size(len(commands))),
                         MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
            processes.append(_Fork([*map(str, command)], {**environment(), **dict(variables), **place}, log))
        yield Job(processes, log)
    finally:
        for p in processes:
            p.send_signal(signal.SIGKILL)
            p.wait()
