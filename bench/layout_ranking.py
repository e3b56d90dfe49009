#!/usr/bin/env python3
"""Whether `slimpack layout` ranks layouts as they train: six layouts of four ranks on this machine.

Costs are profiled for every tp. The layout search rates every tp x pp x dp over the first steps of a run.
Each layout then trains these steps in virtual time, that is as if every rank had a core of its own. Prints
the mean predicted and measured step by layout, and Kendall's tau of the two orders. A shared machine only
adds time, so the fastest of a step's repetitions counts; they come in turn. The documents are the Python
standard library's source files. In a step of 8,192 tokens one of them often outweighs a replica's share,
and cuts lie far apart, so that the layouts differ by more than a measurement.

    .venv/bin/python bench/layout_ranking.py   # three minutes on two cores
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "examples" / "demo.toml"
RANKS, TENSORS = 4, [1, 2, 4]
WARM_UP = 1  # steps that are not counted: memory is new


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=6, help="of a run; the first does not count")
    parser.add_argument("--repetitions", type=int, default=2, help="runs of each layout, in turn")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--json", type=Path, help="write the figures here")
    return parser.parse_args()


def settings(values):
    return [part for key, value in values.items() for part in ("--set", f"{key}={value}")]


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.call("data", "build", "--from", sysconfig.get_paths()["stdlib"], "--glob", "*.py",
                  "--out", folder / "corpus")
        self.common = {"data.prefix": folder / "corpus", "data.step_tokens": 8192,
                       "plan.granularity": 1024, "plan.recompute": "auto",
                       "plan.backward": "split", "plan.memory_cap": "none",
                       "train.clock": "virtual"}
        self.costs = {tp: self.profile(tp) for tp in TENSORS}

    def call(self, *command):
        done = subprocess.run([str(c) for c in (self.options.build / "slimpack", *command)],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"slimpack {' '.join(map(str, command))} failed:\n{done.stderr}")

    def profile(self, tp):
        file = self.folder / f"tp{tp}.json"
        self.call("profile", CONFIG, *settings({**self.common, "parallel.tp": tp}), "--out", file)
        return file

    def predicted(self):
        """By (tp, pp, dp), mean seconds of the steps that count."""
        file = self.folder / "layouts.json"
        self.call("layout", CONFIG, *settings(self.common), "--ranks", RANKS, "--steps",
                  self.options.steps, "--costs", ",".join(map(str, self.costs.values())), "--json",
                  file)
        (search,) = json.loads(file.read_text())["searches"]
        return {(found["tp"], found["pp"], found["dp"]):
                statistics.mean(found["makespans_ns"][WARM_UP:]) / 1e9
                for found in search["layouts"]}

    def measured(self, layout, repetition):
        """Seconds of the steps that count."""
        tp, pp, dp = layout
        output = self.folder / f"{tp}-{pp}-{dp}-{repetition}"
        self.call("train", CONFIG, *settings({
            **self.common, "parallel.tp": tp, "parallel.pp": pp, "parallel.dp": dp,
            "cost.file": self.costs[tp], "train.steps": self.options.steps, "output.dir": output}))
        lines = (output / "metrics.jsonl").read_text().splitlines()
        return [json.loads(line)["step_ns"] / 1e9 for line in lines][WARM_UP:]


def kendall_tau(first, second):
    """Kendall's τ of two lists without ties: (pairs in the same order − pairs in the other) ÷ pairs."""
    pairs = list(itertools.combinations(range(len(first)), 2))
    same = sum((first[a] < first[b]) == (second[a] < second[b]) for a, b in pairs)
    return (2 * same - len(pairs)) / len(pairs)


def main():
    options = parse()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, Path(folder))
        predicted = bench.predicted()
        runs = {layout: [] for layout in predicted}
        for repetition in range(options.repetitions):
            for layout, found in runs.items():
                found.append(bench.measured(layout, repetition))
    measured = {layout: statistics.mean(map(min, zip(*found, strict=True)))
                for layout, found in runs.items()}
    print("tp × pp × dp  predicted  measured")
    for layout, seconds in predicted.items():
        print(f"{' × '.join(map(str, layout)):12}  {seconds:7.3f} s {measured[layout]:7.3f} s")
    tau = kendall_tau(list(predicted.values()), list(measured.values()))
    print(f"Kendall's tau {tau:.2f}")
    if options.json:
        options.json.write_text(json.dumps({"tau": tau, "layouts": [
            {"tp": tp, "pp": pp, "dp": dp, "predicted_seconds": seconds,
             "measured_seconds": measured[tp, pp, dp]}
            for (tp, pp, dp), seconds in predicted.items()]}, indent=2) + "\n")


if __name__ == "__main__":
    main()
