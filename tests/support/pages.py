"""Pages of the documentation: their blocks, and how tests run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

from processes import BUILD

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)
# How long planning took, in tables: it depends on the machine.
PLANNED_IN = re.compile(r"[\d.]+ (?:ns|µs|ms|s)(?= +[\d.]+%$)", re.MULTILINE)

SHELL = """
import subprocess
subprocess.run(["bash", "-euo", "pipefail", "-c", {code!r}], check=True)
"""


def with_changes(text, changes):
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def lines(text):
    """Lines that hold text, without what depends on the machine or on the width of a column."""
    return [" ".join(line.split()) for line in PLANNED_IN.sub("", text).splitlines()
            if line.strip("─ ")]


def run(code, folder):
    """The text that the program prints, in a folder where `slimpack` is the command line."""
    command = folder / "bin" / "slimpack"
    command.parent.mkdir(exist_ok=True)
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m slimpack "$@"\n')
    command.chmod(0o755)
    path = [command.parent, Path(sys.executable).parent, os.environ["PATH"]]
    done = subprocess.run([sys.executable, "-u", "-c", code], capture_output=True, text=True,
                          check=False, cwd=folder,
                          env={**os.environ, "PATH": os.pathsep.join(map(str, path)),
                               "PYTHONPATH": str(BUILD / "python"),
                               "OMP_NUM_THREADS": "1"})  # tiny tensors; threads would only wait for each other
    assert done.returncode == 0, done.stdout + done.stderr
    return lines(done.stdout)
