"""Jobs of several processes on this machine; forking.py starts them."""

import contextlib
import os
import random
import socket
import time
from pathlib import Path

BUILD = Path(os.environ.get("SLIMPACK_BUILD", "build/release")).resolve()
PATIENCE = 120  # seconds: a hang, on any machine


def environment():
    """The environment of every process: the built package, Gloo on this machine alone."""
    return dict(os.environ, PYTHONPATH=str(BUILD / "python"), GLOO_SOCKET_IFNAME="lo",
                OMP_NUM_THREADS="1")


def free_port():
    """A port that nobody listens on. The system gives connections of other processes none of these
    while a job starts. Tests that seed Python's random numbers, as trainers do, change nothing."""
    given_by_system = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.SystemRandom().randrange(10_000, given_by_system)
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("127.0.0.1", port))
            return port


class Job:
    """Running processes, by rank. All write to one log, as under torchrun."""

    def __init__(self, processes, log):
        self.processes = processes
        self.log = log

    def text(self):
        return self.log.read_text()

    def wait_for(self, text, times=1):
        """Until the log holds the text so many times."""
        end = time.monotonic() + PATIENCE
        while self.text().count(text) < times:
            assert time.monotonic() < end, f"{text!r} never came:\n{self.text()}"
            assert any(p.poll() is None for p in self.processes), self.text()
            time.sleep(0.02)

    def signal(self, rank, how):
        self.processes[rank].send_signal(how)

    def codes(self, but=()):
        """Exit codes of all ranks that end by themselves."""
        end = time.monotonic() + PATIENCE
        waited = [p for rank, p in enumerate(self.processes) if rank not in but]
        for p in waited:
            p.wait(max(0, end - time.monotonic()))
        codes = [p.poll() for p in waited]
        assert None not in codes, f"ranks hang; exit codes {codes}:\n{self.text()}"
        return codes


def node_size(processes):
    """The processes of a node: two on each of several nodes, if their number is even; else all on
    one."""
    return 2 if processes % 2 == 0 else processes
