#!/usr/bin/env python3
"""Two ranks of one machine as two processes over Gloo, and as two threads of one process.

Both ways have the same configuration, documents, plans and bits, in turn. Steps hold different
documents, so a step is compared with itself; and what a shared machine adds is never negative, so the
fastest of its repetitions counts. Prints the median step and the median ratio, by grid. The documents
are the Python standard library's source files.

    .venv/bin/python bench/processes.py   # pp 2, dp 2 and tp 2; about ten minutes on two cores
    .venv/bin/python bench/processes.py --grid pp=2 --repetitions 1
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "examples" / "demo.toml"
GRIDS = ["pp=2", "dp=2", "tp=2"]
WARM_UP = 2  # steps that are not counted: memory and connections are new


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", action="append", choices=GRIDS, help="default: all three")
    parser.add_argument("--steps", type=int, default=7, help="of a run; the first two do not count")
    parser.add_argument("--repetitions", type=int, default=2, help="runs of each way, in turn")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--json", type=Path, help="write the figures here")
    return parser.parse_args()


def call(command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False,
                          **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stderr}")


def settings(**values):
    """--set flags; underscores of a name separate section and key."""
    return [part for key, value in values.items()
            for part in ("--set", f"{key.replace('_', '.', 1)}={value}")]


class Bench:
    def __init__(self, options, folder):
        self.steps = options.steps
        self.folder = folder
        self.slimpack = options.build / "slimpack"
        self.environment = dict(os.environ, PYTHONPATH=str(options.build / "python"),
                                GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
        call([self.slimpack, "data", "build", "--from", sysconfig.get_paths()["stdlib"], "--glob",
              "*.py", "--out", folder / "corpus"])

    def common(self, grid):
        axis, ranks = grid.split("=")
        return settings(**{"data_prefix": self.folder / "corpus", "parallel_pp": 1,
                           f"parallel_{axis}": ranks})

    def profile(self, grid):
        """Both ways plan with one measurement, so they run the same plans."""
        call([self.slimpack, "profile", CONFIG, *self.common(grid), "--out",
              self.folder / f"{grid}.json"])

    def seconds(self, way, grid, repetition):
        """The seconds of every step that counts."""
        output = self.folder / f"{grid}-{way}-{repetition}"
        arguments = [CONFIG, *self.common(grid),
                     *settings(cost_file=self.folder / f"{grid}.json", train_steps=self.steps,
                               output_dir=output)]
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone",
                    "--nproc-per-node", "2", "-m", "slimpack.worker"]
        start = [self.slimpack, "train"] if way == "threads" else torchrun
        call([*start, *arguments], env=self.environment)
        lines = (output / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line)["step_ns"] / 1e9 for line in lines][WARM_UP:]


def compare(bench, grid, repetitions):
    bench.profile(grid)
    runs = {"threads": [], "processes": []}
    for repetition in range(repetitions):
        for way, seconds in runs.items():
            seconds.append(bench.seconds(way, grid, repetition))
    threads, processes = ([min(step) for step in zip(*run)] for run in runs.values())
    ratios = [b / a for a, b in zip(threads, processes)]
    return {"grid": grid, "threads_seconds": statistics.median(threads),
            "ratio": statistics.median(ratios), "ratios": ratios}


def main():
    options = parse()
    results = []
    print(f"{'grid':6}  {'threads':>9}  {'processes ÷ threads':>19}")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, Path(folder))
        for grid in options.grid or GRIDS:
            result = compare(bench, grid, options.repetitions)
            results.append(result)
            print(f"{grid:6}  {result['threads_seconds']:7.2f} s  {result['ratio']:19.3f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
