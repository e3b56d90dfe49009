"""The committed types are those of the built modules."""

import subprocess
import sys
from pathlib import Path

from processes import BUILD

TOOL = Path(__file__).parents[2] / "tools" / "python_stubs.py"


def test_stubs_are_those_of_the_built_modules():
    done = subprocess.run([sys.executable, TOOL, BUILD / "python"], capture_output=True, text=True,
                          check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
