"""Options that the measuring programs share, and the lines in which they refuse some."""

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def say(text):
    print(text, file=sys.stderr, flush=True)


def add_model(parser, model):
    """--out and --model. model: the usual one."""
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "generate", metavar="FOLDER",
                        help="what prepare.py made")
    parser.add_argument("--model", default=model, help="a model in that folder")


def measuring_parser(description, model):
    """A parser with the options of every program that runs a model here. model: as in add_model."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model(parser, model)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    return parser


def add_head(parser):
    parser.add_argument("--head", type=Path, metavar="FOLDER",
                        help="an EAGLE-3 head of the model (default: the one that prepare.py made, if any)")


def checked(parser, **least):
    """The options of the command line. Ends the program with one line and exit code 2 where the model is
    not there, or where an option, or one of its numbers, is below the least that is named for it."""
    options = parser.parse_args()
    for name, bound in least.items():
        given = getattr(options, name)
        for number in given if isinstance(given, list) else [given]:
            if number < bound:
                parser.error(f"--{name} {number}: give {bound} or more")
    if not (options.out / options.model / "origin.json").exists():
        parser.error(f"{options.out} has no model '{options.model}': run bench/generate/prepare.py")
    own_head = options.out / options.model / "head"
    if getattr(options, "head", own_head) is None and (own_head / "model.safetensors").exists():
        options.head = own_head
    return options


def held_out(options):
    """The folder of documents that the models of bytes have not seen."""
    return options.out / "corpus" / "sources" / "held-out"
