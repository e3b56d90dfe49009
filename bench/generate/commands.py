"""Commands that take minutes: a line of progress for people, all output in a file."""

import re
import subprocess
import sys
import time

from slimpack.text.progress import human_duration

STEPS = re.compile(r"\[(\d+)/(\d+)\]")  # as ninja counts
INTERVAL = 5  # seconds between two lines where stderr is no terminal


class StepLine:
    """One line that says how many steps of a command are done and how long the others take."""

    def __init__(self, label):
        self.label, self.start, self.last = label, time.monotonic(), 0.0
        self.redraws = sys.stderr.isatty()

    def show(self, done, total):
        now = time.monotonic()
        if now - self.last < (0.1 if self.redraws else INTERVAL):
            return
        self.last = now
        left = human_duration((now - self.start) / done * (total - done))
        self.write(f"{self.label}: {done} of {total} ({done / total:.0%}), ETA {left}",
                   "" if self.redraws else "\n")

    def finish(self):
        self.write(f"{self.label}: {human_duration(time.monotonic() - self.start)}", "\n")

    def write(self, text, end):
        sys.stderr.write(f"\r{text}\x1b[K{end}" if self.redraws else f"{text}{end}")
        sys.stderr.flush()


def run(command, label, log, env=None):
    """Ends the program with one line when the command fails."""
    line = StepLine(label)
    line.write(label, "" if line.redraws else "\n")
    with log.open("w") as out, subprocess.Popen(command, stdout=subprocess.PIPE, env=env, text=True,
                                                stderr=subprocess.STDOUT, errors="replace") as process:
        for text in process.stdout:
            out.write(text)
            found = STEPS.search(text)
            if found and int(found[1]) > 0:
                line.show(int(found[1]), int(found[2]))
    if process.returncode != 0:
        sys.exit(f"\n{label}: failed with exit code {process.returncode}; see {log}")
    line.finish()
