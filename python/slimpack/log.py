"""Sends the metrics of a training run to Weights & Biases (wandb) or TensorBoard.

    python -m slimpack.log runs/mine --to wandb            # what is there and was not sent yet
    python -m slimpack.log runs/mine --to wandb --follow   # and what comes, until Ctrl-C

`slimpack train --log wandb` and the Trainer's log="wandb" do the second while they train. The folder keeps the
id of wandb's run, wandb-run.json: later starts go on with it. wandb's own settings are variables of the
environment: WANDB_PROJECT, WANDB_ENTITY, WANDB_NAME, WANDB_MODE=offline, ….
"""

import argparse
import contextlib
import json
import os
import select
import signal
import sys
from pathlib import Path

from slimpack.command_line import INTERRUPTED, end, exit_code, one_line
from slimpack.following import INTERVAL, follow, read_all
from slimpack.one_line_parser import OneLineParser
from slimpack.tensorboard import EventFiles, until_interrupted
from slimpack.wandb_run import WandbRun

try:
    import tomllib
except ModuleNotFoundError:  # before Python 3.11
    import tomli as tomllib

NAMES = ("tensorboard", "wandb")  # kLogNames of slimpack/spec/run_config.h
MOST_LEFT = 600  # seconds that a child may go on after a parent that was killed
_OWN_ERRORS = 3  # kOwnErrors of slimpack/run/log_process.cpp


def sinks_of(names, folder, settings=None):
    """Makes what takes a run's lines, by name. Raises InvalidInput where a library is missing."""
    make = {"tensorboard": lambda: EventFiles(folder / "tensorboard"), "wandb": lambda: WandbRun(folder, settings)}
    return {name: make[name]() for name in NAMES if name in names}


class Tried:
    """A sink whose failure costs a warning, and no other sink and no training."""

    def __init__(self, name, sink, folder):
        self._name, self._sink, self._folder = name, sink, folder

    def __getattr__(self, call):
        def tried(*arguments):
            if self._sink is None:
                return
            try:
                getattr(self._sink, call)(*arguments)
            except Exception as error:
                self._sink = None
                why = one_line((str(error).strip() or type(error).__name__).splitlines()[0])
                print(f"warning: {self._name}: {why}; training goes on, and python -m slimpack.log "
                      f"{self._folder} --to {self._name} sends the rest", file=sys.stderr, flush=True)
        return tried


class Parent:
    """The training run that has started this process (slimpack/run/log_process.h)."""

    def __init__(self):
        for number in (signal.SIGINT, signal.SIGTERM):  # which are for the run; this process ends after it
            signal.signal(number, signal.SIG_IGN)
        self._id, self._ended, self.ended_well = os.getppid(), False, False
        text = b""
        while b"\n" not in text and (more := os.read(0, 1 << 16)):
            text += more
        first, _, rest = text.partition(b"\n")
        self.settings = {}
        with contextlib.suppress(ValueError):  # names of files may be such that their text is no TOML
            self.settings = tomllib.loads(json.loads(first)["settings"])
        if rest or not first:  # it has not waited for this process
            self._end(rest)

    def go_on(self):
        """Says that nothing is missing. What is printed from now on goes where the parent's messages go."""
        print("ready", flush=True)
        os.dup2(_OWN_ERRORS, 1)
        os.dup2(_OWN_ERRORS, 2)
        os.close(_OWN_ERRORS)

    def looks(self):
        """Yields every INTERVAL until the run has ended, and once more."""
        while not self._ended:
            yield
            if select.select([0], [], [], INTERVAL)[0]:
                self._end(os.read(0, 100))
            elif os.getppid() != self._id:
                self._end(b"")
        yield

    def _end(self, said):
        self._ended, self.ended_well = True, said == b"ended\n"
        signal.alarm(MOST_LEFT)


def serve(folder, names):
    """Follows the run of the parent process."""
    parent = Parent()
    sinks = sinks_of(names, folder, parent.settings)
    parent.go_on()
    tried = [Tried(name, sink, folder) for name, sink in sinks.items()]
    follow(folder / "metrics.jsonl", tried, parent.looks())
    for sink in tried:
        sink.close(parent.ended_well)


def send(folder, names, following):
    """Sends what is there and, with following, what comes until Ctrl-C."""
    metrics, sinks = folder / "metrics.jsonl", sinks_of(names, folder).values()
    with contextlib.ExitStack() as stack:
        for sink in sinks:
            stack.callback(sink.close)
        if following:
            if not metrics.exists():
                print(f"waiting for {metrics}", file=sys.stderr)
            follow(metrics, sinks, until_interrupted())
            return INTERRUPTED
        lines = read_all(metrics, sinks)
    print(f"{lines} lines of metrics are in {' and '.join(names)}")
    return 0


def parse(argv):
    parser = OneLineParser(prog="python -m slimpack.log", description=__doc__)
    parser.add_argument("run", metavar="RUN_DIR", type=Path, help="output.dir of the run")
    parser.add_argument("--to", required=True, metavar="NAMES", help=f"{' or '.join(NAMES)}, or both with a comma "
                        "between them")
    parser.add_argument("--follow", action="store_true", help="go on with what the run writes")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    options.to = [name.strip() for name in options.to.split(",")]
    for name in options.to:
        if name not in NAMES:
            parser.error(f"--to: '{name}' is none of {', '.join(NAMES)}")
    return options


def main(argv=None):
    """Does what the arguments say. Returns the exit code."""
    options = parse(argv)
    return exit_code(lambda: serve(options.run, options.to) if options.child
                     else send(options.run, options.to, options.follow))


if __name__ == "__main__":
    end(main)
