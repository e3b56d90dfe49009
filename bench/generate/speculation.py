#!/usr/bin/env python3
"""How many times as fast as plain decoding speculation is, by draft and rule, over five kinds of text.

    .venv/bin/python bench/generate/prepare.py                                   # first: the models
    .venv/bin/python bench/generate/speculation.py --json runs/generate/speculation.json

An EAGLE-3 head that prepare.py made for the model takes part; --head names another one. Its fixed trees
are measured as published and in the size that is fastest here, found on the first prompt of each kind, so in
favour of this rule. HeteroSpec starts from the fastest size with two guesses or more after each token, for it
reads how sure the head is from several; it is compared with that size.

Each prompt is answered by all ways in turn, --turns times, every other turn in reverse order. A prompt's
ratio is the median over its turns of way ÷ plain in the same turn. The table has the geometric mean over
prompts and its 95% interval (bootstrap over prompts). Answers are greedy; how many tokens equal plain's is
counted, for in bf16 a pass of several rows rounds otherwise than one of a row. Measure on a machine where
nothing else runs.
"""

import dataclasses
import functools
import json
import os
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(1, os.environ.get("SLIMPACK_BUILD", str(ROOT / "build" / "release")) + "/python")

import torch
from fixed_tree import TreeSize, fastest_tree
from intervals import interval
from kinds_of_text import parts_of_sources, requests
from options import add_head, checked, held_out, measuring_parser, say
from others import Others
from same_tokens import same_tokens
from slimpack import InvalidInput
from slimpack.generation import Generator, fit_heterospec
from slimpack.generation.chat import Chat

PROMPT_BYTES = 400  # of a model of bytes
FITTED_ON = 128  # tokens of each answer that HeteroSpec's bins are fitted on, and trees tuned
FIXED = "EAGLE-3, fixed"  # what its other rules are compared with
BASE = "EAGLE-3, HeteroSpec's base"


def parse():
    parser = measuring_parser(__doc__, "smollm2")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    add_head(parser)
    parser.add_argument("--texts", type=int, default=6, metavar="N",
                        help="prompts of each kind; there are six requests")
    parser.add_argument("--new", type=int, default=200, metavar="N", help="tokens of an answer")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures here")
    return checked(parser, threads=1, texts=1, new=2, turns=1)


def ways_of(head, tree, base):
    """By name the settings of a Generator. tree: the size of fixed trees. base: that of HeteroSpec's."""
    ways = {"plain": {}, "n-grams, expected": {"draft": "ngram"}}
    if head is not None:
        for name, size in (("EAGLE-3, published", TreeSize()), (FIXED, tree), (BASE, base)):
            ways[name] = {"draft": head, "draft_rule": "fixed", **dataclasses.asdict(size)}
        for rule in ("heterospec", "expected"):
            ways[f"EAGLE-3, {rule}"] = {"draft": head, "draft_rule": rule}
        ways["EAGLE-3 and n-grams, expected"] = {"draft": ["ngram", head]}
    return ways


def prompts_of(options, folder, generator):
    """By kind of text the prompts, in tokens."""
    if (folder / "tokenizer.json").exists():
        chat = Chat(folder, generator.texts)
        return requests(options.texts, lambda text: chat.tokens([{"role": "user", "content": text}]))
    return parts_of_sources(sorted(held_out(options).rglob("*.py")), options.texts, PROMPT_BYTES)


class Bench:
    def __init__(self, options):
        self.options = options
        self.folder = options.out / options.model / options.precision
        plain = Generator(self.folder, dtype=options.precision)
        self.prompts = prompts_of(options, self.folder, plain)
        self.tree = self.base = None
        if options.head is not None:
            say("looking for the fastest fixed tree")
            seconds = functools.cache(self.seconds_of)  # the second search meets sizes of the first
            self.tree = fastest_tree(seconds, (1, 2, 4))
            self.base = fastest_tree(seconds, (2, 4))
            say(f"fitting HeteroSpec's bins to trees of {self.base}")
            every = [prompt for of in self.prompts.values() for prompt in of]
            fit_heterospec(self.folder, options.head, every, dtype=options.precision,
                           max_new_tokens=FITTED_ON, ignore_eos=True, **dataclasses.asdict(self.base))
        self.ways = ways_of(options.head, self.tree, self.base)
        self.generators = {"plain": plain} | {
            name: Generator(self.folder, dtype=options.precision, **settings)
            for name, settings in self.ways.items() if name != "plain"}

    def seconds_of(self, tree):
        """The seconds of decoding the first prompts with fixed trees of a size."""
        generator = Generator(self.folder, dtype=self.options.precision, draft=self.options.head,
                              draft_rule="fixed", **dataclasses.asdict(tree))
        return sum(generator.generate(prompts[0], max_new_tokens=FITTED_ON, ignore_eos=True).decoding_seconds
                   for prompts in self.prompts.values())

    def answer(self, way, prompt):
        generator = self.generators[way]
        generator.forget()
        return generator.generate(prompt, max_new_tokens=self.options.new, ignore_eos=True)

    def measure(self, prompt):
        """By way the answers of all turns."""
        made = {way: [] for way in self.ways}
        for turn in range(self.options.turns):
            for way in reversed(self.ways) if turn % 2 else self.ways:
                made[way].append(self.answer(way, prompt))
        return made


def figures(made, plain):
    """Figures of a prompt's answers by one way."""
    ratios = [a.tokens_per_second / b.tokens_per_second for a, b in zip(made, plain, strict=True)]
    out = {"tokens_per_second": statistics.median(a.tokens_per_second for a in made),
           "tokens_per_second_ratio": statistics.median(ratios),
           "same_tokens": same_tokens(made[0].tokens, plain[0].tokens)}
    if made[0].speculation is not None:
        s = made[0].speculation
        out |= {"tokens_per_pass": (len(made[0].tokens) - 1) / s.passes, "rows_per_pass": s.rows / s.passes,
                "acceptance": s.acceptance, "drafting_ms_per_pass": 1e3 * s.drafting_seconds / s.passes,
                "verifying_ms_per_pass": 1e3 * s.verifying_seconds / s.passes}
    return out


def summary(cases, ways, key=None):
    """By kind of text and way (mean, lower, upper) of the ratio; "all" has every prompt. key: another
    way to compare with than plain."""
    def ratio(case, way):
        mine = case[way]["tokens_per_second_ratio"]
        return mine if key is None else mine / case[key]["tokens_per_second_ratio"]
    by_kind = {"all": [case for of in cases.values() for case in of], **cases}
    return {kind: {way: interval([ratio(case, way) for case in of]) for way in ways if way != "plain"}
            for kind, of in by_kind.items()}


def report(title, found):
    print(f"\n{title}")
    ways = list(next(iter(found.values())))
    for way in ways:
        print(f"  {way}")
        for kind, of in found.items():
            mean, lower, upper = of[way]
            print(f"    {kind:12}{mean:7.3f}   {lower:.3f} to {upper:.3f}")


def run(options):
    torch.set_num_threads(options.threads)
    bench = Bench(options)
    others, cases = Others([]), {}
    for kind, prompts in bench.prompts.items():
        cases[kind] = []
        for number, prompt in enumerate(prompts, 1):
            made = bench.measure(prompt)
            cases[kind].append({way: figures(of, made["plain"]) for way, of in made.items()})
            say(f"{kind}: {number} of {len(prompts)}")
    found = summary(cases, bench.ways)
    report(f"times as fast as plain, {options.model} in {options.precision}, {options.new} tokens", found)
    against_fixed, against_base = {}, {}
    if options.head is not None:
        rules = [way for way in bench.ways if way.startswith("EAGLE") and way != FIXED]
        against_fixed = summary(cases, rules, FIXED)
        report(f"times as fast as EAGLE-3's fixed trees, {bench.tree.draft_rows} rows of depth "
               f"{bench.tree.draft_depth} and width {bench.tree.draft_width}", against_fixed)
        against_base = summary(cases, ["EAGLE-3, heterospec"], BASE)
        report(f"times as fast as its base, {bench.base.draft_rows} rows of depth "
               f"{bench.base.draft_depth} and width {bench.base.draft_width}", against_base)
    cores = others.cores()
    print(f"\nothers took {cores:.2f} cores")
    if options.json:
        options.json.write_text(json.dumps(
            {"model": options.model, "precision": options.precision, "new": options.new,
             "turns": options.turns, "threads": options.threads, "cores_of_others": cores,
             "fixed_tree": bench.tree and dataclasses.asdict(bench.tree),
             "base_tree": bench.base and dataclasses.asdict(bench.base), "ratio_to_plain": found,
             "ratio_to_fixed": against_fixed, "ratio_to_base": against_base, "cases": cases}, indent=1) + "\n")


def main():
    try:
        run(parse())
    except (InvalidInput, ValueError) as error:
        sys.exit(f"speculation.py: {error}")


if __name__ == "__main__":
    main()
