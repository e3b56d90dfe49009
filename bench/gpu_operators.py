#!/usr/bin/env python3
"""The operators that take the time of a step of `slimpack.train`: those that the CUPTI profiler sees, which
neither waits for them nor slows them down.

    gpu_operators.py REQUEST.json     prints one JSON object; bench/gpu starts it

The last of STEPS steps on the request's documents is profiled, on a GPU all of its kernels, on a processor
libtorch's operators. Shares are those of their sum. "idle" is the time of the step in which no kernel
ran.
"""

import collections
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

STEPS, SHOWN = 3, 40
CONFIG = """
[model]
config = "{model}"
[data]
prefix = "{folder}/corpus"
context = {context}
long_documents = "truncate"
step_tokens = {tokens}
[train]
steps = {steps}
device = "{device}"
dtype = "bf16"
deterministic = false
[checkpoint]
every = 0
[output]
dir = "{folder}/run"
"""


def write_run(request, folder):
    """A run configuration, and a dataset of random tokens whose documents are one step's."""
    from slimpack.text.index import write_index

    lengths = np.array(request["lengths"], dtype=np.int32)
    vocabulary = json.loads(Path(request["model"]).read_text())["vocab_size"]
    tokens = np.random.default_rng(1).integers(vocabulary, size=lengths.sum(), dtype=np.int32)
    tokens.tofile(folder / "corpus.bin")
    with (folder / "corpus.idx").open("wb") as file:
        write_index(file, np.dtype("<i4"), lengths)
    run = folder / "run.toml"
    run.write_text(CONFIG.format(folder=folder, tokens=lengths.sum(), steps=STEPS,
                                 **{name: request[name] for name in ("model", "context", "device")}))
    return run


class LastStep:
    """Profiles the last step. Called with the figures of each."""

    def __init__(self, on_gpu):
        activity = torch.profiler.ProfilerActivity
        # A processor's operators run on the threads of ranks.
        everywhere = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
        self.profiler = torch.profiler.profile(
            activities=[activity.CUDA if on_gpu else activity.CPU],
            experimental_config=None if on_gpu else everywhere)
        self.seconds = None

    def __call__(self, figures):
        if figures["step"] == STEPS - 1:
            self.profiler.start()
        elif figures["step"] == STEPS:
            self.profiler.stop()
            self.seconds = figures["seconds"]


def times_of(profiler, on_gpu):
    """Returns {operator: (seconds, calls)}."""
    times = collections.defaultdict(lambda: (0.0, 0))
    for event in profiler.key_averages():
        if on_gpu and event.device_type == torch.autograd.DeviceType.CPU:
            continue  # the launch of a kernel
        micros = event.self_device_time_total if on_gpu else event.self_cpu_time_total
        if micros > 0:
            seconds, calls = times[event.key]
            times[event.key] = seconds + micros / 1e6, calls + event.count
    return times


def main():
    request = json.loads(Path(sys.argv[1]).read_text())
    sys.path.insert(0, str(Path(request["build"]) / "python"))
    import slimpack

    on_gpu = request["device"] == "cuda"
    last = LastStep(on_gpu)
    with tempfile.TemporaryDirectory() as folder:
        slimpack.train(write_run(request, Path(folder)), on_step=last)
    times = times_of(last.profiler, on_gpu)
    total = sum(seconds for seconds, _ in times.values())
    longest = sorted(times.items(), key=lambda entry: -entry[1][0])[:SHOWN]
    print(json.dumps({
        "seconds": last.seconds,
        "idle": max(0.0, last.seconds - total) if on_gpu else None,
        "operators": [{"name": name, "seconds": seconds, "calls": calls, "share": seconds / total}
                      for name, (seconds, calls) in longest]}))


if __name__ == "__main__":
    main()
