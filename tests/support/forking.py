"""Processes that fork from one which has imported all they need, so that they start in moments: importing
torch takes a process two seconds, and ending with it another."""

import multiprocessing
import os
import runpy
import sys

from processes import environment, job

# The server of forks starts without this process's sys.path.
os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["imported_once"])


class _Fork:
    """A fork that runs a script, with what processes.job uses of subprocess.Popen."""

    def __init__(self, command, place, log):
        script, *arguments = map(str, command)
        self._process = context.Process(
            target=_become, args=(script, arguments, {**environment(), **place}, log.name))
        self._process.start()

    def poll(self):
        return self._process.exitcode

    def wait(self, timeout=None):
        self._process.join(timeout)

    def send_signal(self, how):
        if self.poll() is None:
            os.kill(self._process.pid, how)


def _become(script, arguments, variables, log):
    os.environ.update(variables)
    with open(log, "a") as out:
        for stream in (1, 2):
            os.dup2(out.fileno(), stream)
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")


def forked_job(folder, *commands):
    """A processes.job whose processes are forks. A command is a script and its arguments."""
    return job(folder, *commands, start=_Fork)
