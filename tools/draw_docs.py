#!/usr/bin/env python3
"""Draws the pictures in docs/images with the program itself.

    tools/draw_docs.py BUILD/python [write]

Prints a line for each picture that is not what the program draws, and exits with 1 when there is one; with
`write`, writes it.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from generated_files import ROOT, compare_or_write

LENGTHS = [8192, 6144, 3072, 2048, 1536, 1024, 768, 512]


def pictures():
    """Names and texts."""
    import slimpack
    from slimpack.timeline_svg import timeline_svg

    timelines = {planner: slimpack.plan(LENGTHS, "llama-3-8b", {"pp": 4}, "h100", memory_cap="none",
                                        planner=planner).timeline()
                 for planner in ("packed", "slimpack")}
    end = max(int(timeline.end.max()) for timeline in timelines.values())
    drawn = {f"{planner}.svg": timeline_svg(timeline, end)
             for planner, timeline in timelines.items()}
    return {**drawn, "tutorial.svg": timeline_svg(tutorial_step().timeline()),
            "layouts.svg": layouts(), "sweep.svg": sweep()}


def layouts():
    """The picture of docs/layout.md."""
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "layouts.svg"
        subprocess.run([Path(sys.argv[1]).parent / "slimpack", "layout", "--model",
                        ROOT / "models" / "llama-3.1-8b.json", "--hardware",
                        ROOT / "hardware" / "h100.toml", "--ranks", "256", "--lengths",
                        ROOT / "bench" / "data" / "wlbllm_lengths.txt", "--context", "131072",
                        "--step-tokens", "4194304", "--steps", "1", "--svg", picture],
                       check=True, capture_output=True)
        return picture.read_text()


def sweep():
    """The picture of docs/sweep.md."""
    settings = ["model.config=" + str(ROOT / "models" / "llama-3.1-8b.json"),
                "hardware.file=" + str(ROOT / "hardware" / "h100.toml"), "train.dtype=bf16",
                "train.device=cuda", "parallel.tp=4", "data.context=65536", "plan.recompute=auto"]
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(folder) / "sweep.svg"
        subprocess.run([Path(sys.argv[1]).parent / "slimpack", "sweep", ROOT / "examples" / "demo.toml",
                        "--lengths", ROOT / "examples" / "lengths.txt",
                        *(word for setting in settings for word in ("--set", setting)),
                        "--over", "packs=8,16,32,64,128,256,512,1024", "--over", "pp=2,4,8", "--svg",
                        picture], check=True, capture_output=True)
        return picture.read_text()


def tutorial_step():
    """The step of docs/tutorial.md."""
    import slimpack

    documents = slimpack.read_lengths(ROOT / "examples" / "lengths.txt")
    job = slimpack.Job("llama-3.1-8b", {"pp": 2, "dp": 4, "tp": 4}, "h100")
    return job.plan(slimpack.split_documents(documents, 65536))


def main():
    sys.path.insert(0, sys.argv[1])
    folder = ROOT / "docs" / "images"
    return compare_or_write({folder / name: text for name, text in pictures().items()}, "program draws")


if __name__ == "__main__":
    sys.exit(main())
