#!/usr/bin/env python3
"""Tokens a second and time to the first token of engines that generate text on this processor: batch 1,
greedy, the same weights and prompts, by turns.

    .venv/bin/python bench/generate/prepare.py                          # first: models and llama.cpp
    .venv/bin/python bench/generate/rivals.py --json runs/generate/rivals.json
    .venv/bin/python bench/generate/rivals.py --model byte-long --lengths 1024 16384 --precisions fp32
    .venv/bin/python bench/generate/rivals.py --tuned runs/generate/rivals.json   # measures again

1. Holds that all engines continue a prompt with the same tokens in fp32, so that their weights agree.
2. Looks for each engine's best settings by precision and length of the prompt: for the time to the first
   token, and for the other tokens.
3. Measures turn by turn, in each turn all engines on the same part of the held-out documents, in every
   other turn in reverse order.

Prints medians over the turns, how many cores others took meanwhile, and the settings. Measure on a
machine where nothing else runs: threads wait for each other at every product.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":  # before slimpack: processes that this one starts inherit it
    build = os.environ.get("SLIMPACK_BUILD", str(ROOT / "build" / "release")) + "/python"
    os.environ["PYTHONPATH"] = os.pathsep.join([build, os.environ.get("PYTHONPATH", "")])
    sys.path.insert(1, build)

from engines import ENGINES, Engine
from options import add_model, checked, held_out, say
from others import Others
from prompts import Prompts
from same_tokens import same_tokens
from tuning import MEASURES, Tuning

COMPARED = 32  # tokens that all engines must agree on
TUNED_ON = 32  # tokens
COLUMNS = 80  # of what is printed


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model(parser, "smollm2")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES), metavar="ENGINE",
                        help="the first is what others are compared with")
    parser.add_argument("--precisions", nargs="+", choices=["fp32", "bf16"], default=["fp32", "bf16"])
    parser.add_argument("--lengths", nargs="+", type=int, default=[128, 1024, 4096], metavar="N",
                        help="tokens of the prompt")
    parser.add_argument("--new", type=int, default=128, metavar="N", help="tokens to generate")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--tuned", type=written_before, metavar="JSON",
                        help="take the settings of this result")
    parser.add_argument("--json", type=Path, help="write the figures here")
    return checked(parser, new=2, turns=1, lengths=1)


def written_before(name):
    if not Path(name).is_file():
        raise argparse.ArgumentTypeError(f"{name}: no such file; it is what --json wrote")
    return Path(name)


class Bench:
    def __init__(self, options):
        self.options = options
        self.folder = options.out / options.model
        self.prompts = Prompts(self.folder, held_out(options))
        self.about = {}  # versions, by engine

    def open(self, name, log_name):
        return Engine(name, self.options.out / f"{log_name}.log", self.options.out)

    def load(self, engine, precision, settings, length):
        self.about[engine.name] = engine.call(
            "load", folder=str(self.folder), precision=precision, settings=settings,
            longest=length + max(self.options.new, COMPARED, TUNED_ON))

    def check_weights(self):
        """Ends the program when an engine continues a prompt in another way than the first."""
        prompt, tokens = self.prompts.take(0, min(self.options.lengths)), {}
        for name in self.options.engines:
            with self.open(name, name) as engine:
                usual = {key: values[0]
                         for key, values in engine.call("choices", precision="fp32").items()}
                self.load(engine, "fp32", usual, len(prompt))
                tokens[name] = engine.call("generate", prompt=prompt, count=COMPARED)["tokens"]
        first, *others = tokens
        for name in others:
            if tokens[name] != tokens[first]:
                sys.exit(f"in fp32 {name} continues a prompt with {tokens[name]}, {first} with "
                         f"{tokens[first]}: they have other weights")
        say(f"in fp32 {', '.join(tokens)} agree on {COMPARED} tokens")

    def tune(self, name, precision, length):
        """By measure the best settings, and all that was tried."""
        with self.open(name, name) as engine:
            tuning = Tuning(engine, lambda settings: self.load(engine, precision, settings, length),
                            self.prompts.take(0, length), TUNED_ON,
                            lambda text: say(f"tuning {name} in {precision}: {text}"))
            choices = engine.call("choices", precision=precision)
            best = {measure: tuning.best(choices, seconds) for measure, seconds in MEASURES.items()}
        return {"best": best, "tried": tuning.tried}

    def measure(self, precision, length, tuned):
        """By engine and measure the seconds of each turn, and the tokens."""
        found = {name: {"seconds": {measure: [] for measure in MEASURES}, "tokens": []}
                 for name in tuned}
        with contextlib.ExitStack() as stack:
            counts = {"first token": 1, "decode": self.options.new}
            sessions = {}
            for name, of in tuned.items():
                for measure, settings in of["best"].items():
                    engine = stack.enter_context(self.open(name, f"{name}-{measure.split()[0]}"))
                    self.load(engine, precision, settings, length)
                    engine.call("generate", prompt=self.prompts.take(0, length), count=counts[measure])
                    sessions[name, measure] = engine
            others = Others(engine.process.pid for engine in sessions.values())
            for turn in range(self.options.turns):
                prompt = self.prompts.take(turn, length)
                order = list(sessions.items())
                for (name, measure), engine in reversed(order) if turn % 2 else order:
                    done = engine.call("generate", prompt=prompt, count=counts[measure])
                    found[name]["seconds"][measure].append(done[MEASURES[measure]])
                    if measure == "decode":
                        found[name]["tokens"].append(done["tokens"])
                say(f"{precision}, {length:,} tokens: turn {turn + 1} of {self.options.turns}")
            return {"precision": precision, "length": length, "engines": found,
                    "settings": {name: of["best"] for name, of in tuned.items()},
                    "tried": {name: of["tried"] for name, of in tuned.items()},
                    "cores_of_others": others.cores()}


def agreeing(tokens, reference):
    """How many tokens of all turns come before the first that differs."""
    return sum(same_tokens(ours, theirs) for ours, theirs in zip(tokens, reference, strict=True))


def report(case, new):
    """A table for people."""
    first_name, *_ = case["engines"]
    reference = case["engines"][first_name]
    print(f"\n{case['precision']}, prompt of {case['length']:,} tokens, {new} new ones; others took "
          f"{case['cores_of_others']:.2f} cores")
    print(f"{'':14}{'first token':>12}{'×':>7}{'tokens/s':>11}{'lowest':>9}{'highest':>9}{'×':>7}"
          f"{'same':>7}")
    for name, of in case["engines"].items():
        rates = [(new - 1) / seconds for seconds in of["seconds"]["decode"]]
        faster = {measure: statistics.median(
            theirs / ours for ours, theirs in zip(of["seconds"][measure],
                                                  reference["seconds"][measure], strict=True))
            for measure in MEASURES}
        same = agreeing(of["tokens"], reference["tokens"]) / sum(map(len, of["tokens"]))
        print(f"{name:14}{statistics.median(of['seconds']['first token']):10.3f} s"
              f"{faster['first token']:7.2f}{statistics.median(rates):11.1f}{min(rates):9.1f}"
              f"{max(rates):9.1f}{faster['decode']:7.2f}{same:7.0%}")
    for name, of in case["settings"].items():
        for measure, settings in of.items():
            text = ", ".join(f"{key} {value}" for key, value in settings.items())
            print(textwrap.fill(f"{name}, {measure}: {text}", COLUMNS, initial_indent="  ",
                                subsequent_indent="    "))


def settings_of(file):
    """(precision, length) → engine → what `tune` gave for a result written before."""
    cases = json.loads(file.read_text())["cases"]
    return {(case["precision"], case["length"]):
            {name: {"best": best, "tried": case["tried"][name]} for name, best in case["settings"].items()}
            for case in cases}


def compare(options):
    bench = Bench(options)
    bench.check_weights()
    known, cases = settings_of(options.tuned) if options.tuned else {}, []
    for precision in options.precisions:
        for length in options.lengths:
            of_case = known.get((precision, length), {})
            tuned = {name: of_case.get(name) or bench.tune(name, precision, length)
                     for name in options.engines}
            cases.append(bench.measure(precision, length, tuned))
            report(cases[-1], options.new)
            if options.json:  # after each case, so that a run that is stopped leaves something
                options.json.write_text(json.dumps(
                    {"model": options.model, "new": options.new, "turns": options.turns,
                     "engines": bench.about, "cases": cases}, indent=2) + "\n")
    print("\n× is how many times as fast as the first engine, the median over turns; same: tokens "
          "before\nthe first that differs from the first engine's")


def main():
    try:
        compare(parse())
    except (RuntimeError, ValueError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
