"""One line on the terminal that says how far a long task is, in the form of the C++ program's
(slimpack/base/progress.h). Nothing is written where stderr is no terminal."""

import os
import sys
import time

INTERVAL = 0.1  # seconds between two drawings


def scaled(value, base, units):
    """The value in the largest unit in which it is at least 1."""
    unit = 0
    while unit + 1 < len(units) and round(value) >= base:
        value /= base
        unit += 1
    return f"{value:.{1 if unit > 0 and value < 99.95 else 0}f}{units[unit]}"


def human_bytes(count):
    return scaled(count, 1000, (" B", " kB", " MB", " GB", " TB", " PB"))


def human_duration(seconds):
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    seconds = round(seconds)
    if seconds < 3600:
        return f"{seconds // 60} m {seconds % 60:02} s"
    minutes = round(seconds / 60)
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02} m"
    hours = round(minutes / 60)
    return f"{hours // 24} d {hours % 24:02} h"


def counted(number, noun="document"):
    return f"{number:,} {noun}" + ("s" if number != 1 else "")


class Progress:
    def __init__(self, label, total, done=0, out=None, now=time.monotonic):
        """`total` and `done` are bytes of inputs; what was done before says nothing of the rate."""
        self.label, self.total, self.before = label, total, done
        self.out = out or sys.stderr
        self.on = self.out.isatty()
        self.now = now
        self.start = self.last = now()
        self.text_bytes = 0
        self.open_line = False

    def show(self, documents, done, text_bytes):
        """`text_bytes` more are done; `documents` and `done` count from the beginning."""
        self.text_bytes += text_bytes
        now = self.now()
        if not self.on or now - self.last < INTERVAL:
            return
        self.last = now
        elapsed = now - self.start
        share = done / self.total if self.total else 1
        speed = (done - self.before) / elapsed
        left = human_duration(max((self.total - done) / speed, 1)) if speed > 0 else "unknown"
        eta = f", ETA {left}" if share < 1 else ""
        self.write(f"{self.label}: {counted(documents)} ({share:.0%}), {self.rate(elapsed)}{eta}")

    def finish(self, documents):
        if self.on:
            elapsed = self.now() - self.start
            self.write(f"{self.label}: {counted(documents)} in {human_duration(elapsed)}, "
                       f"{self.rate(elapsed)}", end="\n")

    def leave(self):
        """The cursor at the start of a line, for a message."""
        if self.open_line:
            self.out.write("\n")
            self.open_line = False

    def rate(self, elapsed):
        return f"{human_bytes(self.text_bytes / max(elapsed, 1e-9))}/s"

    def write(self, line, end=""):
        # A line that wraps could not be drawn again.
        try:
            columns = os.get_terminal_size(self.out.fileno()).columns or 80
        except OSError:
            columns = 80
        self.out.write(f"\r{line[: columns - 1]}\x1b[K{end}")
        self.out.flush()
        self.open_line = not end
