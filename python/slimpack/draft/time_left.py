"""How long the rest of a task takes, for people."""

import time

from slimpack import _planner


class TimeLeft:
    """Counts from the moment it is made, when `done` of `total` were done."""

    def __init__(self, done, total):
        self._begun, self._total, self._start = done, total, time.monotonic_ns()

    def after(self, done):
        """"3 m 20 s left", and in the end "took 12 m 01 s"."""
        elapsed = time.monotonic_ns() - self._start
        left = self._total - done
        if left <= 0:
            return f"took {_planner.human_duration(elapsed)}"
        return f"{_planner.human_duration(elapsed * left // max(done - self._begun, 1))} left"
