#!/usr/bin/env python3
"""Tokens a second of many answers at the same time, beside transformers.

    .venv/bin/python bench/generate/prepare.py --parts smollm2                 # first: the model
    .venv/bin/python bench/generate/batches.py --json runs/generate/batches.json

Both answer the prompts of a whole batch in turn, --turns times, every other turn in reverse order. Tokens
are those of the answers, and the time is that of prompts and answers. A batch's ratio is the median over its
turns of ours ÷ transformers'. Measure on a machine where nothing else runs.
"""

import json
import os
import statistics
import sys
import time
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(1, os.environ.get("SLIMPACK_BUILD", str(ROOT / "build" / "release")) + "/python")

import torch
from options import checked, held_out, measuring_parser
from others import Others
from prompts import Prompts
from slimpack.generation import Generator
from transformers_answers import likeliest_answers, load


def parse():
    parser = measuring_parser(__doc__, "smollm2")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 16, 32, 64], metavar="N")
    parser.add_argument("--prompt", type=int, default=64, metavar="N", help="tokens of a prompt")
    parser.add_argument("--new", type=int, default=100, metavar="N", help="tokens of an answer")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures here")
    return checked(parser, threads=1, batches=1, prompt=1, new=2, turns=1)


def ours(folder, precision):
    generator = Generator(folder, dtype=precision)

    def answer(prompts, new):
        generator.generate_batch(prompts, batch=len(prompts), max_new_tokens=new, ignore_eos=True)
    return answer


def theirs(folder, precision):
    return partial(likeliest_answers, load(folder, precision))


def tokens_per_second(answer, prompts, new):
    begin = time.perf_counter()
    answer(prompts, new)
    return len(prompts) * new / (time.perf_counter() - begin)


def measure(ways, prompts, options):
    """By way the median of its tokens a second; and the median ratio."""
    made = {way: [] for way in ways}
    for answer in ways.values():
        answer(prompts, 2)  # warms up
    for turn in range(options.turns):
        for way in reversed(ways) if turn % 2 else ways:
            made[way].append(tokens_per_second(ways[way], prompts, options.new))
    ratios = [a / b for a, b in zip(*made.values(), strict=True)]
    return {way: statistics.median(of) for way, of in made.items()} | {"ratio": statistics.median(ratios)}


def main():
    options = parse()
    torch.set_num_threads(options.threads)
    folder = options.out / options.model / options.precision
    ways = {"slimpack": ours(folder, options.precision), "transformers": theirs(folder, options.precision)}
    text = Prompts(options.out / options.model, held_out(options))
    try:
        tokens = text.take(0, max(options.batches) * options.prompt)
    except ValueError as error:
        sys.exit(f"batches.py: {error}")
    prompts = [tokens[i:i + options.prompt] for i in range(0, len(tokens), options.prompt)]
    others, found = Others([]), {}
    print(f"{options.model} in {options.precision}, {options.new} tokens each, tokens a second\n")
    print(f"{'batch':>5}{'slimpack':>12}{'transformers':>15}{'ratio':>9}")
    for batch in options.batches:
        of = found[batch] = measure(ways, prompts[:batch], options)
        print(f"{batch:>5}{of['slimpack']:>12.0f}{of['transformers']:>15.0f}{of['ratio']:>9.2f}", flush=True)
    cores = others.cores()
    print(f"\nothers took {cores:.2f} cores")
    if options.json:
        options.json.write_text(json.dumps(
            {"model": options.model, "precision": options.precision, "new": options.new,
             "threads": options.threads, "cores_of_others": cores, "tokens_per_second": found},
            indent=1) + "\n")


if __name__ == "__main__":
    main()
