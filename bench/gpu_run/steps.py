#!/usr/bin/env python3
"""Whole steps: SlimPack's (bench/gpu), the operators of one, and Hugging Face's, each a process.

    --way slimpack | operators | rivals     --job NAME (jobs.py)     --build FOLDER
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from jobs import BENCH, write_jobs
from part import Part

EXPECTED = {  # H100: MFU of SlimPack's step, without and with the kernels of this project
    "1.2B, 32K": "35% with FlashAttention-2, 47% with fused kernels, 52% with FlashAttention-4, too",
    "8B stack, 64K": "45% or more with both", "8B stack, 128K": "45% or more with both"}
RIVAL = {"1.2B, 32K": "7.3 s as it comes, 5.0 to 5.3 tuned", "8B stack, 64K": "recomputes layers",
         "8B stack, 128K": "recomputes layers"}


def slimpack(part, request, job, build):
    """bench/gpu without its Python parts; with FlashAttention-4 where there is its library, and if steps
    are short without it, too."""
    asked = json.loads(request.read_text())
    with tempfile.TemporaryDirectory() as folder:
        lengths, figures = Path(folder, "lengths.txt"), Path(folder, "figures.json")
        lengths.write_text("\n".join(map(str, asked["lengths"])))
        for name, environment in ways_of(part)[-asked["steps"]:]:
            command = [build / "bench" / "gpu", "--device", asked["device"], "--hugging-face", "",
                       "--model", asked["model"], "--lengths", lengths, "--context", asked["context"],
                       "--step-tokens", sum(asked["lengths"]), "--repetitions", min(asked["steps"], 2),
                       "--json", figures, "--page", ""]
            run(map(str, command), environment)
            for way in json.loads(figures.read_text())["ways"]:
                off = way["predicted_seconds"] / way["seconds"] - 1
                part.line(f"{job}: {way['way']}, {name}", seconds=way["seconds"], mfu=way["mfu"],
                          predicted_off=off, recompute=way["recompute"],
                          peak_activation_bytes=way["peak_activation_bytes"],
                          expected=EXPECTED.get(job, ""))


def ways_of(part):
    from fa4_library import find_library

    ways = [("FlashAttention-2", {"SLIMPACK_FA4": ""})]
    library = find_library()
    if library and not part.small:
        ways.append(("FlashAttention-4", {"SLIMPACK_FA4": library}))
    return ways


def operators(part, request, job, build):
    found = json.loads(run([sys.executable, str(BENCH / "gpu_operators.py"), str(request)]))
    part.line(f"{job}: profiled step", seconds=found["seconds"], idle=found["idle"])
    for operator in found["operators"]:
        part.line(f"{job}: operator {operator['name']}", milliseconds=operator["seconds"] * 1e3,
                  calls=operator["calls"], share=operator["share"])


def rivals(part, request, job, build):
    for options in ([], ["--tuned"]):
        name = f"{job}: Hugging Face{', tuned' if options else ''}"
        part.guarded(name, rival, request, job, name, options)


def rival(part, request, job, name, options):
    found = json.loads(run([sys.executable, str(BENCH / "gpu_hugging_face.py"), str(request),
                            *options]))
    part.line(name, seconds=found["seconds"], way=found["way"], recomputes=found["recomputes"],
              peak_bytes=found["peak_bytes"], expected=RIVAL.get(job, ""))


def run(command, environment=None):
    """The last line that a command prints. Raises RuntimeError with the end of what it says where it
    fails."""
    done = subprocess.run(list(command), capture_output=True, text=True,
                          env={**os.environ, **(environment or {})})
    if done.returncode:
        raise RuntimeError((done.stderr or done.stdout).strip()[-350:])
    return done.stdout.strip().splitlines()[-1]


def main():
    part = Part("steps", way="slimpack, operators or rivals", job="see jobs.py",
                build="where bench/gpu and the Python package are built")
    build = Path(part.options.build)
    with tempfile.TemporaryDirectory() as folder:
        requests = write_jobs(Path(folder), part.device.type, build)
        job = "tiny" if part.small else part.options.job
        function = {"slimpack": slimpack, "operators": operators, "rivals": rivals}[part.options.way]
        part.guarded(f"{job}: {part.options.way}", function, requests[job], job, build)


if __name__ == "__main__":
    main()
