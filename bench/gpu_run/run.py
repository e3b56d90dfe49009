#!/usr/bin/env python3
"""All that a quarter of an hour on a GPU can tell: builds SlimPack there and runs the parts, each a
process with a time limit of its own, so that one that crashes or hangs costs itself alone.

    python3 bench/gpu_run/run.py --out FOLDER [--seconds 560] [--build FOLDER]

FOLDER gets results.jsonl (a line as soon as it is known), log.txt and page.md, a summary with failures
first. bundle.py makes the folder to take to a machine without internet. Without a GPU it says what
would run; --cpu runs all of it on a processor, at sizes that take seconds.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from page import page_of, summary_of

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1]


@dataclass
class Step:
    """seconds: its limit. needs_build: whether it waits for the build."""

    name: str
    seconds: int
    command: list
    needs_build: bool = False


def steps_of(options):
    """The parts; the most important come first, because the end may be cut off."""
    def python(seconds, file, *arguments, needs_build=False):
        name = " ".join([file.removesuffix(".py"), *arguments[1:4:2]])
        limit = ["--results", options.out / "results.jsonl", "--seconds", max(seconds - 10, 5)]
        small = ["--cpu"] if options.cpu else []
        return Step(name, seconds, [sys.executable, HERE / file, *arguments, *limit, *small], needs_build)

    def whole(seconds, way, job):
        return python(seconds, "steps.py", "--way", way, "--job", job, "--build", options.build,
                      needs_build=True)

    jobs = ["tiny"] if options.cpu else ["1.2B, 32K", "8B stack, 64K", "8B stack, 128K"]
    tests = [options.build / "tests" / "packflow" / "packflow_step_test", "--gtest_filter=*OnCuda*"]
    cuda_tests = [] if options.cpu else [Step("OnCuda tests", 60, tests, True)]
    return [python(60, "machine.py"), python(90, "attention.py"),
            python(60, "fused_kernels.py", needs_build=True), whole(120, "slimpack", jobs[0]),
            *cuda_tests, whole(60, "operators", jobs[0]), whole(75, "rivals", jobs[0]),
            *(whole(80, way, job) for job in jobs[1:] for way in ("slimpack", "rivals"))]


class Run:
    """Results and the time that is left."""

    def __init__(self, options):
        self.options, self.end = options, time.monotonic() + options.seconds
        self.results, self.log = options.out / "results.jsonl", options.out / "log.txt"
        paths = [options.build / "python", HERE, options.bundle / "site", os.environ.get("PYTHONPATH")]
        threads = {"OMP_NUM_THREADS": "1"} if options.cpu else {}
        self.environment = {**os.environ, **threads, "PYTHONUNBUFFERED": "1",
                            "SLIMPACK_BUNDLE": str(options.bundle),
                            "PYTHONPATH": os.pathsep.join(map(str, filter(None, paths)))}

    def line(self, **figures):
        text = json.dumps({"part": "run", **figures})
        print(text, flush=True)
        with self.results.open("a") as file:
            file.write(text + "\n")

    def do(self, step):
        """Runs a step to its end or its limit. Returns whether it ended well."""
        seconds = min(step.seconds, self.end - time.monotonic())
        if seconds < 5:
            return self.line(name=step.name, skipped="out of time")
        begin = time.monotonic()
        with self.log.open("a") as log:
            print(f"== {step.name}", file=log, flush=True)
            try:
                process = subprocess.Popen(list(map(str, step.command)), stdout=log, stderr=log,
                                           env=self.environment, start_new_session=True)
            except OSError as error:
                return self.line(name=step.name, failed=str(error))
            status = self._wait(process, seconds)
        self.line(name=step.name, status=status, seconds=round(time.monotonic() - begin, 1),
                  **({} if status == 0 else {"failed": "ran into its limit" if status == "limit"
                                             else f"exit code {status}, see log.txt"}))
        return status == 0

    @staticmethod
    def _wait(process, seconds):
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return "limit"


def start_build(run):
    """Configures and builds in the background. Returns the process."""
    options = run.options
    prefix = options.bundle / "prefix"
    environment = dict(run.environment)
    configure = ["cmake", "-S", SOURCE, "-B", options.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                 "-DSLIMPACK_UNITY=ON", f"-DPython_EXECUTABLE={sys.executable}"]
    if prefix.is_dir():
        include, libraries = prefix / "include", prefix / "lib" / "x86_64-linux-gnu"
        configure += [f"-DCMAKE_PREFIX_PATH={prefix}", f"-DHIGHS_LIBRARY={libraries / 'libhighs.so.1'}"]
        for name, folder in (("CPATH", include), ("LIBRARY_PATH", libraries),
                             ("LD_LIBRARY_PATH", libraries)):
            environment[name] = os.pathsep.join(filter(None, [str(folder), os.environ.get(name)]))
        run.environment["LD_LIBRARY_PATH"] = environment["LD_LIBRARY_PATH"]
    build = ["cmake", "--build", options.build, "--target", "slimpack_python", "gpu_bench",
             "packflow_step_test"]
    script = " && ".join(" ".join(f"'{word}'" for word in words) for words in (configure, build))
    return subprocess.Popen(["bash", "-c", script], stdout=(options.out / "build.txt").open("w"),
                            stderr=subprocess.STDOUT, env=environment, start_new_session=True)


def wait_for(run, building):
    """Until the build has ended. Returns whether it is there."""
    if building is None:
        return True
    begin = time.monotonic()
    status = run._wait(building, max(run.end - begin - 60, 1))
    run.line(name="build", status=status, waited=round(time.monotonic() - begin, 1),
             **({} if status == 0 else {"failed": f"exit code {status}, see build.txt"}))
    return status == 0


def run_all(options):
    options.out.mkdir(parents=True, exist_ok=True)
    run = Run(options)
    run.results.write_text("")
    building = None if options.cpu else start_build(run)
    built = None
    for step in steps_of(options):
        if step.needs_build and built is None:
            built = wait_for(run, building)
        if step.needs_build and not built:
            run.line(name=step.name, skipped="the build failed")
        else:
            run.do(step)
    if building and building.poll() is None:
        os.killpg(building.pid, signal.SIGKILL)
    lines = [json.loads(line) for line in run.results.read_text().splitlines()]
    (options.out / "page.md").write_text(page_of(lines))
    print(summary_of(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=int, default=560, help="all of it ends within these")
    parser.add_argument("--build", type=Path, default=SOURCE / "build" / "gpu_run")
    parser.add_argument("--bundle", type=Path, default=SOURCE.parent, help="what bundle.py made")
    parser.add_argument("--cpu", action="store_true", help="small sizes on a processor; --build is there")
    options = parser.parse_args()
    for name in ("out", "build", "bundle"):
        setattr(options, name, getattr(options, name).resolve())
    if options.cpu or torch.cuda.is_available():
        return run_all(options)
    print("There is no CUDA device here. With one, these would run, each for so long at most:")
    for step in steps_of(options):
        print(f"{step.seconds:4} s  {step.name}")


if __name__ == "__main__":
    main()
