#!/usr/bin/env python3
"""Whether answers have transformers' tokens: plain, with the prompt in slices, and by speculation.

    .venv/bin/python bench/generate/prepare.py --parts smollm2 corpus    # first: a model and documents
    .venv/bin/python bench/generate/agreement.py --json runs/generate/agreement.json
    .venv/bin/python bench/generate/agreement.py --precision fp32 --head HEAD

Each of --prompts parts of the held-out documents is gone on with --new tokens, greedily. Where an answer
parts from transformers', it is a tie if the two tokens' logits in transformers differ by less than 1e-4;
what follows is not compared. Exit code 1 where something parts that is no tie.
"""

import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(1, os.environ.get("SLIMPACK_BUILD", str(ROOT / "build" / "release")) + "/python")

import torch
from options import add_head, checked, held_out, measuring_parser
from prompts import Prompts
from same_tokens import same_tokens
from slimpack import InvalidInput
from slimpack.generation import Generator
from transformers_answers import likeliest_answers, load

SLICE = 70  # of a prompt in slices: some rows go through the kernels of many, some of few
TIE = 1e-4
STRIDE = 97  # lengths of prompts: 40, 137, …


def parse():
    parser = measuring_parser(__doc__, "smollm2")
    parser.add_argument("--precision", choices=["fp64", "fp32"], default="fp64")
    add_head(parser)
    parser.add_argument("--prompts", type=int, default=64, metavar="N")
    parser.add_argument("--new", type=int, default=128, metavar="N", help="tokens of an answer")
    parser.add_argument("--longest", type=int, default=600, metavar="N", help="tokens of a prompt, at most")
    parser.add_argument("--json", type=Path, help="write the figures here")
    return checked(parser, threads=1, prompts=1, new=1, longest=40)


def ways_of(folder, precision, head):
    ways = {"plain": {}, "sliced": {}, "n-grams": {"draft": "ngram"}}
    if head is not None:
        ways["EAGLE-3"] = {"draft": head, "draft_rule": "fixed"}
        ways["EAGLE-3 and n-grams"] = {"draft": ["ngram", head], "draft_rule": "fixed"}
    return {way: Generator(folder, dtype=precision, **settings) for way, settings in ways.items()}


@torch.no_grad()
def gap(model, tokens, mine, theirs):
    """By how much the model's logit of their next token is above that of mine."""
    logits = model(torch.tensor([tokens])).logits[0, -1].double()
    return float(logits[theirs] - logits[mine])


def run(options):
    torch.set_num_threads(options.threads)
    folder = options.out / options.model / "fp32"
    prompts = Prompts(options.out / options.model, held_out(options))
    reference = load(folder, options.precision)
    ways = ways_of(folder, options.precision, options.head)
    found = {way: {"same": 0, "ties": 0, "others": []} for way in ways}
    for number in range(options.prompts):
        length = 40 + number * STRIDE % (options.longest - 39)
        prompt = prompts.take(number, length)
        [theirs] = likeliest_answers(reference, [prompt], options.new)
        for way, generator in ways.items():
            made = generator.generate(prompt, max_new_tokens=options.new, ignore_eos=True,
                                      prefill_slice=SLICE if way == "sliced" else None).tokens
            at = same_tokens(made, theirs)
            if at == len(theirs):
                found[way]["same"] += 1
            elif abs(gap(reference, prompt + theirs[:at], made[at], theirs[at])) < TIE:
                found[way]["ties"] += 1
            else:
                found[way]["others"].append({"prompt": number, "token": at})
        print(f"{number + 1} of {options.prompts}", end="\r", file=sys.stderr, flush=True)
    print(f"\n{options.model} in {options.precision}: {options.prompts} prompts, {options.new} tokens each")
    for way, of in found.items():
        print(f"{way:10}{of['same']:5} the same{of['ties']:5} ties{len(of['others']):5} others")
    if options.json:
        options.json.write_text(json.dumps({"model": options.model, "precision": options.precision,
                                            "prompts": options.prompts, "new": options.new,
                                            "ways": found}, indent=1) + "\n")
    return 1 if any(of["others"] for of in found.values()) else 0


def main():
    try:
        sys.exit(run(parse()))
    except (InvalidInput, ValueError) as error:
        sys.exit(f"agreement.py: {error}")


if __name__ == "__main__":
    main()
