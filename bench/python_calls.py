#!/usr/bin/env python3
"""The cost of planning through Python beside the program: the same step both ways, in turn.

The program's time is what its --json says of planning alone; Python's is that of Job.plan, with the array
handed over. Prints both medians and their ratio.

    .venv/bin/python bench/python_calls.py lengths.txt [--turns 7] [--json FILE]
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEQUENCES, CONTEXT = 4096, 8192
PARALLEL = {"pp": 8, "dp": 64}


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lengths", type=Path, help="documents: one length a line")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--json", type=Path, help="write the figures here")
    return parser.parse_args()


def by_program(program, folder, lengths):
    """Seconds of planning, and the plan's text."""
    config = folder / "run.toml"
    config.write_text(f'[model]\nconfig = "{ROOT / "models" / "llama-3-8b.json"}"\n[data]\ncontext = {CONTEXT}\n'
                      f'[train]\ndtype = "bf16"\ndevice = "cuda"\n'
                      f'[parallel]\npp = {PARALLEL["pp"]}\ndp = {PARALLEL["dp"]}\n')
    list_file = folder / "lengths.txt"
    list_file.write_text("".join(f"{n}\n" for n in lengths))
    subprocess.run([program, "plan", config, "--lengths", list_file, "--out", folder / "plan.json", "--json",
                    folder / "figures.json", "--set", f"hardware.file={ROOT / 'hardware' / 'h100.toml'}"],
                   check=True, capture_output=True)
    figures = json.loads((folder / "figures.json").read_text())
    return figures["planning_ns"] / 1e9, (folder / "plan.json").read_text()


def main():
    options = parse()
    sys.path.insert(0, str(options.build / "python"))
    import slimpack

    lengths = slimpack.read_lengths(options.lengths)[:SEQUENCES].clip(max=CONTEXT)
    job = slimpack.Job("llama-3-8b", PARALLEL, "h100", context=CONTEXT)
    program, python = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.turns):
            seconds, text = by_program(options.build / "slimpack", Path(folder), lengths)
            program.append(seconds)
            start = time.perf_counter()
            step = job.plan(lengths)
            python.append(time.perf_counter() - start)
            if step.to_json() != text:
                sys.exit("the plans differ")
    ratio = statistics.median(p / c for p, c in zip(python, program, strict=True))
    print(f"{len(lengths):,} sequences: program {statistics.median(program):.3f} s, "
          f"Python {statistics.median(python):.3f} s, median ratio {ratio:.3f}")
    if options.json:
        options.json.write_text(json.dumps({"cases": [{
            "name": "plan", "program_seconds": program, "python_seconds": python, "ratio": ratio}]}) + "\n")


if __name__ == "__main__":
    main()
