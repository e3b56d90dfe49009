"""How much of the machine other programs take while something is measured."""

import os
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def busy_ticks():
    """Ticks of all cores since the start of the machine, time that a hypervisor gives to others
    included."""
    user, nice, system, _, _, irq, softirq, steal = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
    return user + nice + system + irq + softirq + steal


def own_ticks(process):
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


class Others:
    """Counts from when it is made. `processes`: those that are measured."""

    def __init__(self, processes):
        self.processes = [*processes, os.getpid()]
        self.start, self.before = time.monotonic(), self.ticks()

    def ticks(self):
        return busy_ticks() - sum(own_ticks(process) for process in self.processes)

    def cores(self):
        """On average so many were theirs."""
        return max(0.0, (self.ticks() - self.before) / TICKS / (time.monotonic() - self.start))
