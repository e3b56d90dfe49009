"""TensorBoard event files from the metrics of a training run.

    python -m slimpack.tensorboard runs/mine            # what is there
    python -m slimpack.tensorboard runs/mine --follow   # and what comes, until Ctrl-C
    tensorboard --logdir runs/mine/tensorboard

Every number in metrics.jsonl is a scalar of the same name at its step; of figures by rank, the
largest. Figures of one of several held-out sets end with its name: evaluation_loss/code. Losses by length
end with the least length: evaluation_loss_from_1024. Event files of an earlier conversion are replaced.
"""

import signal
import sys
import time
from pathlib import Path

from slimpack import InvalidInput
from slimpack.command_line import INTERRUPTED, end, exit_code
from slimpack.following import INTERVAL, follow, read_all, scalars, written_at
from slimpack.one_line_parser import OneLineParser


class EventFiles:
    """Writes the lines of metrics.jsonl into a folder as event files, which take the place of all that
    were there. Raises InvalidInput where the libraries are missing."""

    def __init__(self, folder):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise InvalidInput(f"{error}; install what is missing: pip install tensorboard") from error
        self._make_writer, self._folder, self._writer = SummaryWriter, folder, None

    def begin(self):
        self.close()
        for old in self._folder.glob("events.out.tfevents.*"):
            old.unlink()
        # A TensorBoard that is watching forgets what it had from the files before.
        self._writer = self._make_writer(self._folder, purge_step=0)

    def write(self, lines):
        for line in lines:
            for name, value in scalars(line).items():
                self._writer.add_scalar(name, value, line["step"], walltime=written_at(line))
        self._writer.flush()

    def close(self, well=True):
        if self._writer is not None:
            self._writer.close()


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


def parse(argv):
    parser = OneLineParser(prog="python -m slimpack.tensorboard", description=__doc__)
    parser.add_argument("run", metavar="RUN_DIR", type=Path, help="output.dir of the run")
    parser.add_argument("--follow", action="store_true", help="go on with what the run writes")
    return parser.parse_args(argv)


def main(argv=None):
    """Converts as the arguments say. Returns the exit code."""
    options = parse(argv)
    metrics, events = options.run / "metrics.jsonl", options.run / "tensorboard"

    def work():
        files = EventFiles(events)
        try:
            if options.follow:
                if not metrics.exists():
                    print(f"waiting for {metrics}", file=sys.stderr)
                follow(metrics, [files], until_interrupted())
                return INTERRUPTED
            lines = read_all(metrics, [files])
        finally:
            files.close()
        print(f"{lines} lines of metrics are in {events}; tensorboard --logdir {events}")

    return exit_code(work)


if __name__ == "__main__":
    end(main)
