#!/usr/bin/env python3
"""Measures the machine, for comparison: the speed of memory and of matrix products, and clocks."""

import subprocess
import threading

import torch
from part import Part, model_shape

_QUERY = ["nvidia-smi", "--format=csv,noheader,nounits", "--query-gpu"]


def about(part):
    if part.small:
        return part.line("about", card="CPU", torch=torch.__version__)
    p = torch.cuda.get_device_properties(0)
    part.line("about", card=p.name, torch=torch.__version__, multiprocessors=p.multi_processor_count,
              bytes=p.total_memory, driver=_ask("driver_version"))


def _ask(what):
    return subprocess.run([*_QUERY[:2], f"{_QUERY[2]}={what}"], capture_output=True, text=True,
                          timeout=20).stdout.strip()


def copy(part):
    source = part.random(2 ** 12 if part.small else 2 ** 29)
    target = torch.empty_like(source)
    seconds = part.seconds(lambda: target.copy_(source), budget=1.0)
    part.line("copy", tb_per_s=2 * source.nbytes / seconds / 1e12)


def large_product(part):
    n = 64 if part.small else 8192
    a, b = part.random(n, n), part.random(n, n)
    part.line("product", tflops=2 * n ** 3 / part.seconds(lambda: a @ b, budget=2.0) / 1e12)


def products(part, model, rows=8192):
    """Products of one layer and of the head: forward, the gradient of inputs, and that of weights, which is
    added in fp32."""
    s = model_shape(part.small)[model]
    rows = 64 if part.small else rows
    widths = {"qkv": (s["H"], (s["N"] + 2 * s["G"]) * s["D"]), "output": (s["N"] * s["D"], s["H"]),
              "gate and up": (s["H"], 2 * s["F"]), "down": (s["F"], s["H"]), "head": (s["H"], s["V"])}
    for name, (wide_in, wide_out) in widths.items():
        x, dy, w = (part.random(*size) for size in ((rows, wide_in), (rows, wide_out),
                                                    (wide_out, wide_in)))
        y, dx = torch.empty_like(dy), torch.empty_like(x)
        dw = torch.zeros(wide_out, wide_in, device=part.device)

        def weight_gradient(dy=dy, x=x, dw=dw):
            if part.small:  # a processor adds no products of bf16 in fp32
                return dw.addmm_(dy.t().float(), x.float())
            return torch.ops.aten.addmm.dtype_out(dw, dy.t(), x, torch.float32, out=dw)

        calls = {"forward": lambda x=x, w=w, y=y: torch.mm(x, w.t(), out=y),
                 "dgrad": lambda dy=dy, w=w, dx=dx: torch.mm(dy, w, out=dx),
                 "wgrad": weight_gradient}
        flops = 2 * rows * wide_in * wide_out
        part.line(f"products {model}: {name}", shape=[rows, wide_in, wide_out],
                  **{f"{key}_tflops": flops / part.seconds(call, budget=0.4) / 1e12
                     for key, call in calls.items()}, expected="700 to 800 each")


def clocks(part):
    """While products run for three seconds; a step runs at these, not at those of an idle card."""
    if part.small:
        return part.line("clocks under load", skipped="needs a GPU")
    a, b = part.random(8192, 8192), part.random(8192, 8192)
    shown = []
    watcher = threading.Timer(2.0, lambda: shown.append(_ask(
        "clocks.sm,clocks.mem,power.draw,temperature.gpu")))
    watcher.start()
    seconds = part.seconds(lambda: [a @ b for _ in range(100)], budget=3.5) / 100
    watcher.join()
    clock, memory, watts, degrees = map(float, shown[0].split(", "))
    part.line("clocks under load", sm_mhz=clock, memory_mhz=memory, watts=watts, degrees=degrees,
              tflops=2 * 8192 ** 3 / seconds / 1e12)


def main():
    part = Part("machine")
    for function in (about, copy, large_product, clocks):
        part.guarded(function.__name__, function)
    for model in model_shape(part.small):
        part.guarded(f"products {model}", products, model)


if __name__ == "__main__":
    main()
