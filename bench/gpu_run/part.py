"""Code that the parts of a run on a GPU share: lines of results, the device, and times on it.

A line is a JSON object with "part", "name", figures, and from expected.json what was expected of
them. It is printed and added to the file of results at once, so that nothing is lost when a part ends
badly.
"""

import argparse
import json
import math
import os
import time
import traceback
from pathlib import Path

import torch

EXPECTED = json.loads(Path(__file__).with_name("expected.json").read_text())


class Part:
    """Holds the place of results, the time that the part may take, and the device.

    small: sizes that a processor computes in seconds.
    """

    def __init__(self, name, **arguments):
        parser = argparse.ArgumentParser(description=name)
        parser.add_argument("--results", type=Path, help="lines are added to this file")
        parser.add_argument("--seconds", type=float, default=120, help="then the part ends")
        parser.add_argument("--cpu", action="store_true", help="small sizes on a processor")
        for option, description in arguments.items():
            parser.add_argument("--" + option, help=description, default="")
        self.options = parser.parse_args()
        self.name, self.small = name, self.options.cpu
        self.device = torch.device("cpu" if self.small else "cuda")
        self._end = time.monotonic() + self.options.seconds
        self._generator = torch.Generator(self.device).manual_seed(11)

    def line(self, name, **figures):
        """Adds a line. A figure below what expected.json asks at least for, or above what it allows at
        most, makes it bad; so does good=False."""
        for key, value in figures.items():
            if isinstance(value, float):  # JSON knows no NaN
                figures[key] = float(f"{value:.4g}") if math.isfinite(value) else str(value)
        expected = EXPECTED.get(name, {})
        if "text" in expected:
            figures["expected"] = expected["text"]
        for figure, (low, high) in ({} if self.small else expected.get("limits", {})).items():
            value = figures.get(figure)
            inside = isinstance(value, (int, float)) and low <= value <= high
            figures["good"] = inside and figures.get("good", True)
        text = json.dumps({"part": self.name, "name": name, **figures})
        print(text, flush=True)
        if self.options.results:
            with self.options.results.open("a") as file:
                file.write(text + "\n")

    def guarded(self, name, function, *arguments):
        """Runs one thing to learn: its failure is a line, and the rest of the part goes on."""
        if time.monotonic() > self._end:
            return self.line(name, skipped="out of time")
        try:
            function(self, *arguments)
        except Exception as error:
            self.line(name, failed=f"{type(error).__name__}: {error}"[:400],
                      where=traceback.format_exc().strip().splitlines()[-3:])
        if not self.small:
            torch.cuda.empty_cache()

    def random(self, *shape, dtype=torch.bfloat16):
        numbers = torch.randn(*shape, generator=self._generator, device=self.device)
        return numbers.to(dtype)

    def seconds(self, call, budget=0.25):
        """The median of single calls: at least three, after one to warm up."""
        call()
        begin, times = time.monotonic(), []
        while len(times) < 3 or (time.monotonic() - begin < budget and len(times) < 50):
            times.append(self._once(call))
        return sorted(times)[len(times) // 2]

    def _once(self, call):
        if self.small:
            start = time.perf_counter()
            call()
            return time.perf_counter() - start
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / 1e3


def model_shape(small):
    """H, N, G, D, F, V of the models that are measured, by name."""
    if small:
        return {"tiny": dict(H=32, N=4, G=2, D=16, F=64, V=96)}
    return {"1.2B": dict(H=2048, N=32, G=8, D=64, F=8192, V=128256),
            "8B": dict(H=4096, N=32, G=8, D=128, F=14336, V=128256)}


def bundle():
    """The folder that bundle.py has made; without one, that of the sources."""
    return Path(os.environ.get("SLIMPACK_BUNDLE", Path(__file__).parents[2]))
