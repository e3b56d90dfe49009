#!/usr/bin/env python3
"""The gains and losses of sparse prefill, by method and length of the prompt.

    .venv/bin/python bench/generate/prepare.py                           # first: the models
    .venv/bin/python bench/generate/sparse.py --json runs/generate/sparse.json
    .venv/bin/python bench/generate/sparse.py --model smollm2 --lengths 512 2048 8000

- time to the first token ÷ that of dense attention, turn by turn, every other turn in reverse order;
- bits per byte of held-out documents beside dense, over the same tokens;
- CRA: the least and the mean share of a query's attention that the chosen keys have, by exact count, over
  all queries of the measured heads (--measured) of all layers;
- needles, for models of bytes: how many of --needles planted values are read back.

Measure on a machine where nothing else runs.
"""

import json
import math
import os
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(1, os.environ.get("SLIMPACK_BUILD", str(ROOT / "build" / "release")) + "/python")

import torch
from needles import planted
from options import checked, held_out, measuring_parser, say
from others import Others
from prompts import Prompts
from slimpack import InvalidInput
from slimpack.generation import Generator

METHODS = ["sample-attention", "sample-attention-v1", "flex-prefill", "x-attention"]


def parse():
    parser = measuring_parser(__doc__, "byte-long")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, metavar="METHOD")
    parser.add_argument("--lengths", nargs="+", type=int, metavar="N",
                        default=[512, 1024, 2048, 4096, 8192, 16384, 32768, 65536],
                        help="tokens of the prompt")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--measured", nargs="*", type=int, default=[0], metavar="HEAD",
                        help="heads of every layer whose kept share is counted")
    parser.add_argument("--needles", type=int, default=10, metavar="N", help="of each length")
    parser.add_argument("--json", type=Path, help="write the figures here")
    return checked(parser, threads=1, lengths=1, turns=1)


class Bench:
    def __init__(self, options):
        self.options = options
        self.folder = options.out / options.model / options.precision
        self.prompts = Prompts(options.out / options.model, held_out(options))
        self.generators = {"dense": self.make(None)} | {m: self.make(m) for m in options.methods}
        self.counting = {m: self.make(m, options.measured) for m in options.methods if options.measured}

    def make(self, method, heads=()):
        return Generator(self.folder, dtype=self.options.precision, sparse=method, measured_heads=heads)

    def generate(self, way, prompt, count):
        self.generators[way].forget()
        return self.generators[way].generate(prompt, max_new_tokens=count, ignore_eos=True)

    def times(self, length):
        """By way the seconds to the first token of each turn, and what sparse attention computed."""
        seconds, sparse = {way: [] for way in self.generators}, {}
        for way in self.generators:  # pages and caches, which the first prompt of a length makes
            self.generate(way, self.prompts.take(0, length), 1)
        for turn in range(self.options.turns):
            prompt = self.prompts.take(turn, length)
            for way in reversed(self.generators) if turn % 2 else self.generators:
                made = self.generate(way, prompt, 1)
                seconds[way].append(made.first_token_seconds)
                sparse[way] = made.sparse
        return seconds, sparse

    def bits(self, length):
        """By way the bits per token of the second half of a document, each token given all before it."""
        prompt = self.prompts.take(0, length)
        scored = length - length // 2
        return {way: generator.score(prompt, skip=length // 2) / math.log(2) / scored
                for way, generator in self.generators.items()}

    def kept(self, method, length):
        generator = self.counting[method]
        generator.forget()
        made = generator.generate(self.prompts.take(0, length), max_new_tokens=1, ignore_eos=True)
        return {"least": made.sparse.least_kept, "mean": made.sparse.mean_kept}

    def needles(self, length):
        """By way how many values are read back."""
        source, found = bytes(self.prompts.take(0, length)), dict.fromkeys(self.generators, 0)
        for number in range(self.options.needles):
            prompt, value = planted(source, length, (number + 0.5) / self.options.needles, number)
            for way in self.generators:
                found[way] += bytes(min(token, 255) for token in
                                    self.generate(way, list(prompt), len(value)).tokens) == value
        return found


def case_of(bench, length):
    seconds, sparse = bench.times(length)
    bits = bench.bits(length)
    needles = bench.needles(length) if bench.prompts.tokenizer is None else {}
    ways = {}
    for way in bench.generators:
        of = {"ttft_seconds": statistics.median(seconds[way]),
              "ttft_ratio": statistics.median(a / b for a, b in zip(seconds["dense"], seconds[way],
                                                                    strict=True)),
              "bits_per_token": bits[way], "bits_ratio": bits[way] / bits["dense"]}
        if way in needles:
            of["needles"] = needles[way]
        if sparse[way] is not None:
            of |= {"density": sparse[way].density, "dense_heads": sparse[way].dense_heads}
            if way in bench.counting:
                of["cra"] = bench.kept(way, length)
        ways[way] = of
    return {"length": length, "ways": ways}


def report(case):
    print(f"\nprompt of {case['length']:,} tokens")
    print(f"{'':21}{'seconds':>9}{'×':>7}{'pairs':>7}{'dense':>7}{'bits':>8}{'least':>8}{'mean':>7}"
          f"{'found':>6}")
    for way, of in case["ways"].items():
        line = f"{way:21}{of['ttft_seconds']:9.3f}{of['ttft_ratio']:7.2f}"
        line += (f"{of['density']:7.0%}{of['dense_heads']:7.0%}" if "density" in of else f"{'':14}")
        line += f"{of['bits_ratio'] - 1:+8.2%}"
        cra = of.get("cra", {})
        line += (f"{cra['least']:8.1%}{cra['mean']:7.1%}" if cra.get("least") is not None else f"{'':15}")
        print(line + (f"{of['needles']:6d}" if "needles" in of else ""))


def run(options):
    torch.set_num_threads(options.threads)
    bench, others, cases = Bench(options), Others([]), []
    for length in options.lengths:
        say(f"{length:,} tokens")
        cases.append(case_of(bench, length))
        report(cases[-1])
        if options.json:  # after each length, so that a run that is stopped leaves something
            options.json.write_text(json.dumps(
                {"model": options.model, "precision": options.precision, "turns": options.turns,
                 "threads": options.threads, "cores_of_others": others.cores(), "cases": cases},
                indent=1) + "\n")
    print("\n× is dense's time ÷ the method's, the median over turns; pairs: computed ones of"
          "\nall; dense: heads left dense; bits: beside dense's; least and mean: kept"
          "\nattention (CRA); found: needles")


def main():
    try:
        run(parse())
    except (InvalidInput, ValueError) as error:
        sys.exit(f"sparse.py: {error}")


if __name__ == "__main__":
    main()
