#!/usr/bin/env python3
"""Several GPUs, first tried and then measured: for who has a machine with eight.

    make build && .venv/bin/python bench/gpus/run.py       some twenty minutes on eight GPUs

Starts its jobs by torchrun, one after the other, each with a time limit:

1. Check: a small model trains 20 steps on a grid of pp 2 × dp 2 × tp 2 ranks and on one rank. The losses
   must be those of one rank but for rounding.
2. Links: messages between neighbours, and collectives of all ranks.
3. Steps: a Llama of 1.2 billion parameters on documents of the Python standard library up to 32K bytes, on
   the grid, and with all ranks as replicas; each step as SlimPack plans it and as whole documents packed.
4. FSDP2: Hugging Face's model with fully_shard, packed, on the same lengths.

Writes what came of each to runs/gpus.json and the page runs/gpus.md; please send both in. A job that fails
is noted with the end of what it said, and the others go on. The exit code is 1 if the check failed.

Without GPUs all of it runs on Gloo with a small model: that shows that the command works, and what it would
do, and nothing of speed. FSDP2 needs a Python with transformers.
"""

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from pathlib import Path

import torch

from page import page_text

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TOLERANCE = {"fp32": 1e-3, "bf16": 2e-2}  # of a loss, relative: sums in another order
LIMIT = 900  # seconds of a job
PEAK_FLOPS = 989e12  # bf16, dense: H100 and H200
LARGEST = {"cuda": 1 << 28, "cpu": 1 << 16}  # bytes of a message

SETTINGS = """
[model]
config = "{model}"
[data]
prefix = "{corpus}"
context = {context}
long_documents = "truncate"
step_tokens = {step_tokens}
[train]
steps = {steps}
dtype = "{dtype}"
device = "{device}"
deterministic = false
learning_rate = 1e-3
warmup_steps = 5
[parallel]
pp = {pp}
dp = {dp}
tp = {tp}
timeout = 120
[output]
dir = "{output}"
"""
GIVEN_COSTS = "[hardware]\n"  # nothing is measured before the first step


class JobFailed(Exception):
    """The end of what a job said."""


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", default="2,2,2", metavar="PP,DP,TP", help="default: 2,2,2")
    parser.add_argument("--check-steps", type=int, default=20)
    parser.add_argument("--peak-flops", type=float, default=PEAK_FLOPS, help="of a GPU, in bf16")
    parser.add_argument("--text", type=Path, default=Path(sysconfig.get_paths()["stdlib"]),
                        help="folder of *.py files that are the documents")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--json", type=Path, default=ROOT / "runs" / "gpus.json")
    parser.add_argument("--page", type=Path, default=ROOT / "runs" / "gpus.md")
    options = parser.parse_args()
    options.grid = tuple(map(int, options.grid.split(",")))
    return options


class GpuMemory:
    """The most bytes in use on any GPU of the machine while the context lasts; 0 without GPUs."""

    def __enter__(self):
        self.peak, self._end = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._end.set()
        self._thread.join()

    def _watch(self):
        command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        while torch.cuda.is_available() and not self._end.wait(0.5):
            with contextlib.suppress(OSError, ValueError):
                said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
                self.peak = max([self.peak, *(int(line) << 20 for line in said.split())])


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.ranks = math.prod(options.grid)
        self.environment = dict(os.environ, PYTHONPATH=str(options.build.resolve() / "python"))
        if self.device == "cpu":
            self.environment.update(GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
        self.require_ranks()
        subprocess.run([options.build / "slimpack", "data", "build", "--from", options.text, "--glob",
                        "*.py", "--out", folder / "corpus"], check=True, capture_output=True)

    def require_ranks(self):
        gpus = torch.cuda.device_count()
        if self.device == "cuda" and gpus < self.ranks:
            sys.exit(f"the grid has {self.ranks} ranks, this machine {gpus} GPUs; give a smaller --grid")

    def torchrun(self, ranks, *arguments):
        """Returns what a job printed. Raises JobFailed."""
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                   ranks, *arguments]
        try:
            done = subprocess.run([*map(str, command)], env=self.environment, cwd=self.folder, text=True,
                                  capture_output=True, timeout=LIMIT, check=False)
        except subprocess.TimeoutExpired as error:
            raise JobFailed(f"no end after {LIMIT} s") from error
        if done.returncode != 0:
            said = [line for line in done.stderr.splitlines() if line.startswith("slimpack: ")]
            own = [line for line in done.stderr.splitlines() if line.startswith("[rank")]
            raise JobFailed("\n".join((said or own or done.stderr.splitlines())[-20:]))
        return done.stdout

    def train(self, name, grid, costs, *arguments, **settings):
        """Runs slimpack.worker; its folder."""
        pp, dp, tp = grid
        file = self.folder / f"{name}.toml"
        file.write_text(SETTINGS.format(**settings, corpus=self.folder / "corpus", pp=pp, dp=dp, tp=tp,
                                        device=self.device, output=self.folder / name) + costs)
        self.torchrun(pp * dp * tp, "-m", "slimpack.worker", file, *arguments)
        return self.folder / name

    def json_of(self, ranks, program, *arguments):
        """The object that a program beside this one printed last."""
        printed = self.torchrun(ranks, HERE / program, *arguments).splitlines()
        return json.loads([line for line in printed if line.startswith("{")][-1])


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def check(bench, dtype):
    """The losses of the grid beside those of one rank."""
    settings = dict(model=ROOT / "models" / "demo.json", context=1024, step_tokens=4096, dtype=dtype,
                    steps=bench.options.check_steps)
    losses = [[line["loss"] for line in metrics(bench.train(f"check-{dtype}-{name}", grid, GIVEN_COSTS,
                                                            **settings))]
              for name, grid in (("grid", bench.options.grid), ("one", (1, 1, 1)))]
    furthest = max(abs(a / b - 1) for a, b in zip(*losses, strict=True))
    return {"dtype": dtype, "losses": losses[0], "losses_of_one_rank": losses[1], "furthest": furthest,
            "tolerance": TOLERANCE[dtype], "holds": furthest <= TOLERANCE[dtype]}


def flops_of_step(model, lengths):
    """FLOPs of the model, 2 for a multiply-add: 3 times the forward's; attention is causal."""
    config = json.loads(Path(model).read_text())
    h, layers, d = config["hidden_size"], config["num_hidden_layers"], config["head_dim"]
    q, k = config["num_attention_heads"] * d, config["num_key_value_heads"] * d
    weights = layers * h * (2 * q + 2 * k + 3 * config["intermediate_size"]) + h * config["vocab_size"]
    return 6 * weights * sum(lengths) + 6 * layers * q * sum(n * n for n in lengths)


def job_of(bench):
    """Model and documents that are measured."""
    if bench.device == "cuda":
        return dict(model=ROOT / "bench" / "data" / "llama_1b.json", context=32768,
                    step_tokens=262144 * bench.ranks // 2, dtype="bf16", steps=4)
    return dict(model=ROOT / "models" / "demo.json", context=1024, step_tokens=4096, dtype="fp32", steps=2)


def with_rates(bench, figures, model, lengths):
    """Tokens a second and, on GPUs, the share of their peak."""
    seconds = figures["seconds"]
    figures.update(tokens=sum(lengths), tokens_per_second=sum(lengths) / seconds)
    if bench.device == "cuda":
        figures["mfu"] = flops_of_step(model, lengths) / (
            seconds * bench.ranks * bench.options.peak_flops)
    return figures


def steps(bench, grid):
    """The last step of a run: as planned, and as whole documents packed, in turn. The lengths too."""
    settings = job_of(bench)
    costs = "" if bench.device == "cuda" else GIVEN_COSTS
    with GpuMemory() as memory:
        folder = bench.train("steps-" + "-".join(map(str, grid)), grid, costs, "--against", "packed",
                             **settings)
    measured = json.loads((folder / "measured.json").read_text())
    lengths = [length for *_, length in measured["sequences"]]
    last = metrics(folder)[-1]
    ways = []
    for planner in measured["compared"]["planners"]:
        seconds = [ns / 1e9 for ns in planner["step_ns"]]
        ways.append(with_rates(bench, {
            "way": f"{planner['planner']}, pp {grid[0]} × dp {grid[1]} × tp {grid[2]}",
            "seconds": statistics.median(seconds), "all_seconds": seconds, "bubble": statistics.median(
                planner["bubble"]), "peak_activation_bytes": planner["peak_activation_bytes"],
            "used_bytes": memory.peak}, settings["model"], lengths))
    ways[0]["predicted_seconds"] = last["predicted_step_ns"] / 1e9
    return ways, lengths


def fsdp(bench, lengths):
    """Measures FSDP2. Layers are recomputed if the step does not fit otherwise."""
    settings = job_of(bench)
    request = {"model": str(settings["model"]), "context": settings["context"], "device": bench.device,
               "lengths": lengths}
    file = bench.folder / "fsdp.json"
    for recomputes in (False, True):
        file.write_text(json.dumps({**request, "recomputes": recomputes}))
        try:
            with GpuMemory() as memory:
                found = bench.json_of(bench.ranks, "fsdp.py", file)
        except JobFailed as error:
            if recomputes or "OutOfMemory" not in str(error):
                raise
            continue
        found.update(way="FSDP2, packed" + (", recomputed" if recomputes else ""), used_bytes=memory.peak)
        return with_rates(bench, found, settings["model"], lengths)


class Findings:
    """Keeps the results of each part as soon as they are there."""

    def __init__(self, bench):
        options = bench.options
        self.files = {options.json: lambda f: json.dumps(f, indent=1) + "\n", options.page: page_text}
        self.found = {"device": bench.device, "torch": torch.__version__, "ranks": bench.ranks,
                      "card": torch.cuda.get_device_name() if bench.device == "cuda" else None,
                      "grid": options.grid, "checks": [], "links": [], "ways": [], "failed": []}

    def add(self, what, key, work):
        """Appends the list that `work` returns under the key. Returns it; None if its job failed."""
        print(f"{what} …", file=sys.stderr, flush=True)
        start, rows = time.monotonic(), None
        try:
            rows = work()
            self.found[key] += rows
        except JobFailed as error:
            self.found["failed"].append({"what": what, "said": str(error)})
        print(f"  {'failed' if rows is None else 'done'} after {time.monotonic() - start:.0f} s",
              file=sys.stderr, flush=True)
        for file, text in self.files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text(self.found))
        return rows


def main():
    options = parse()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, Path(folder))
        findings = Findings(bench)
        for dtype in ("fp32", "bf16") if bench.device == "cuda" else ("fp32",):
            findings.add(f"check in {dtype}", "checks", lambda d=dtype: [check(bench, d)])
        findings.add("links", "links", lambda: bench.json_of(
            bench.ranks, "links.py", bench.device, LARGEST[bench.device])["links"])
        lengths = None
        for grid in dict.fromkeys([options.grid, (1, bench.ranks, 1)]):
            def measured(of=grid):
                nonlocal lengths
                ways, lengths = steps(bench, of)
                return ways
            findings.add(f"steps on {grid}", "ways", measured)
        if lengths:
            findings.add("FSDP2", "ways", lambda: [fsdp(bench, lengths)])
    print(page_text(findings.found))
    checks = findings.found["checks"]
    sys.exit(0 if checks and all(c["holds"] for c in checks) else 1)


if __name__ == "__main__":
    main()
