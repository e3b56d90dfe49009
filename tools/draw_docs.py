#!/usr/bin/env python3
"""Draws the pictures in docs/images with the program itself.

    tools/draw_docs.py BUILD/python [write]

Prints a line for each picture that is not what the program draws, and exits with 1 when there is one; with
`write`, writes it. It takes a minute.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from generated_files import ROOT, compare_or_write


def packed_and_sliced(program):
    """The picture of README.md and docs/index.md."""
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.json"
        planned_step().save(plan)
        return drawn_by_program(program, "report", plan)


def tutorial(_):
    """The picture of docs/tutorial.md."""
    from slimpack import _planner

    return _planner.timelines_svg([("one step", planned_step().timeline())])


def layouts(program):
    """The picture of docs/layout.md."""
    return drawn_by_program(
        program, "layout", "--model", ROOT / "models" / "llama-3.1-8b.json", "--hardware",
        ROOT / "hardware" / "h100.toml", "--ranks", "256", "--lengths",
        ROOT / "bench" / "data" / "wlbllm_lengths.txt", "--context", "131072", "--step-tokens", "4194304",
        "--steps", "1")


def drawn_by_program(program, *arguments):
    """The picture that a command of the program draws with --svg."""
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "picture.svg"
        subprocess.run([program, *arguments, "--svg", picture], check=True, capture_output=True)
        return picture.read_text()


def sweep(program):
    """The picture of docs/sweep.md."""
    settings = ["model.config=" + str(ROOT / "models" / "llama-3.1-8b.json"),
                "hardware.file=" + str(ROOT / "hardware" / "h100.toml"), "train.dtype=bf16",
                "train.device=cuda", "parallel.tp=4", "data.context=65536", "plan.recompute=auto"]
    return drawn_by_program(
        program, "sweep", ROOT / "examples" / "demo.toml", "--lengths", ROOT / "examples" / "lengths.txt",
        *(word for setting in settings for word in ("--set", setting)), "--over",
        "packs=8,16,32,64,128,256,512,1024", "--over", "pp=2,4,8")


def planned_step():
    """The step of README.md and docs/tutorial.md on 32 H100s."""
    import slimpack

    documents = slimpack.read_lengths(ROOT / "examples" / "lengths.txt")
    return slimpack.Job("llama-3.1-8b", {"pp": 2, "dp": 4, "tp": 4}, "h100").plan(slimpack.split_documents(documents, 65536))


# The text of each picture, from the path of the program.
PICTURES = {"packed-and-sliced.svg": packed_and_sliced, "layouts.svg": layouts, "sweep.svg": sweep,
            "tutorial.svg": tutorial}


def main():
    sys.path.insert(0, sys.argv[1])
    program, folder = Path(sys.argv[1]).parent / "slimpack", ROOT / "docs" / "images"
    return compare_or_write({folder / name: drawn(program) for name, drawn in PICTURES.items()}, "program draws")


if __name__ == "__main__":
    sys.exit(main())
