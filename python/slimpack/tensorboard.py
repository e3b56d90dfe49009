"""TensorBoard event files from the metrics of a training run.

    python -m slimpack.tensorboard runs/mine            # what is there
    python -m slimpack.tensorboard runs/mine --follow   # and what comes, until Ctrl-C
    tensorboard --logdir runs/mine/tensorboard

Every number in metrics.jsonl is a scalar of the same name at its step; of figures by rank, the
largest. Figures of one of several held-out sets end with its name: evaluation_loss/code. Event files of
an earlier conversion are replaced.
"""

import json
import signal
import sys
import time
from pathlib import Path

from slimpack import InvalidInput
from slimpack.command_line import INTERRUPTED, end, exit_code
from slimpack.numbers import INT64
from slimpack.one_line_parser import OneLineParser
from slimpack.text.errors import shown

NOT_SCALARS = ("step", "unix_ms")
INTERVAL = 1.0  # seconds between two looks at a file that is followed


class MetricsFile:
    """metrics.jsonl, read on as whole lines come."""

    def __init__(self, file):
        self.file = file
        self.end = 0  # of the whole lines that were read
        self.last = b""  # of these
        self.lines = 0

    def read(self):
        """The new lines as objects; None when those read before are no longer there, because a run
        has gone back to an earlier checkpoint."""
        with self.file.open("rb") as f:
            f.seek(self.end - len(self.last))
            data = f.read()
        if not data.startswith(self.last):
            return None
        # A line that is half-written is left for later.
        new = data[len(self.last) : data.rfind(b"\n") + 1].splitlines(keepends=True)
        lines = [self.parse(text) for text in new]
        self.end += sum(map(len, new))
        self.last = new[-1] if new else self.last
        return lines

    def parse(self, text):
        self.lines += 1
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            line = None
        step = line.get("step") if isinstance(line, dict) else None
        if type(step) is not int or not 0 <= step <= INT64:
            raise InvalidInput(
                f"{shown(self.file)}:{self.lines}: no line of metrics (a JSON object with a step); name the "
                "folder that a training run has written to (output.dir)"
            )
        return line


def is_number(value):
    """Whether an event file can hold the value: its numbers have 64 bits."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not (
        isinstance(value, int) and abs(value) > INT64)


def scalars(line):
    """The line's figures by name."""
    result = {}
    of_set = f"/{line['evaluation_name']}" if isinstance(line.get("evaluation_name"), str) else ""
    for name, value in line.items():
        numbers = [v for v in (value if isinstance(value, list) else [value]) if is_number(v)]
        if numbers and name not in NOT_SCALARS:
            result[name + of_set] = max(numbers)
    return result


def open_events(folder):
    """A writer of a new event file in `folder`, which takes the place of all that were there."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise InvalidInput(f"{error}; install what is missing: pip install tensorboard") from error
    for old in folder.glob("events.out.tfevents.*"):
        old.unlink()
    # A TensorBoard that is watching forgets what it had from the files before.
    return SummaryWriter(folder, purge_step=0)


def write(writer, lines):
    for line in lines:
        wall = line["unix_ms"] / 1000 if is_number(line.get("unix_ms")) else None
        for name, value in scalars(line).items():
            writer.add_scalar(name, value, line["step"], walltime=wall)
    writer.flush()


def convert(metrics, events):
    try:
        lines = MetricsFile(metrics).read()
    except FileNotFoundError as error:
        raise InvalidInput(
            f"{shown(metrics)} is not there; name the folder that a training run writes to (output.dir), or "
            "wait for its first step with --follow"
        ) from error
    with open_events(events) as writer:
        write(writer, lines)
    print(f"{len(lines)} lines of metrics are in {events}; tensorboard --logdir {events}")


def until_interrupted():
    """Yields every INTERVAL until Ctrl-C. That is only noted: raised wherever the program is, it can
    leave the event writer and its thread waiting for each other."""
    interrupts = []
    before = signal.signal(signal.SIGINT, lambda *_: interrupts.append(True))
    try:
        while not interrupts:
            yield
            time.sleep(INTERVAL)
    finally:
        signal.signal(signal.SIGINT, before)


def follow_file(source, events, looks):
    """Until what it has read is no longer there."""
    with open_events(events) as writer:
        for _ in looks:
            lines = source.read()
            if lines is None:
                return
            write(writer, lines)


def follow(metrics, events):
    """Until Ctrl-C."""
    if not metrics.exists():
        print(f"waiting for {metrics}", file=sys.stderr)
    looks = until_interrupted()
    for _ in looks:
        if metrics.exists():
            follow_file(MetricsFile(metrics), events, looks)


def parse(argv):
    parser = OneLineParser(prog="python -m slimpack.tensorboard", description=__doc__)
    parser.add_argument("run", metavar="RUN_DIR", type=Path, help="output.dir of the run")
    parser.add_argument("--follow", action="store_true", help="go on with what the run writes")
    return parser.parse_args(argv)


def main(argv=None):
    """Converts as the arguments say. Returns the exit code."""
    options = parse(argv)
    files = options.run / "metrics.jsonl", options.run / "tensorboard"

    def work():
        if not options.follow:
            return convert(*files)
        follow(*files)
        return INTERRUPTED

    return exit_code(work)


if __name__ == "__main__":
    end(main)
