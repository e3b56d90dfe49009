"""`import slimpack` in the repository's root, where a folder of that name has the C++ sources."""

import os
import subprocess
import sys
from pathlib import Path

from processes import BUILD

ROOT = Path(__file__).parents[2]


def python(*arguments, package=True):
    """Runs Python in the root, with the package or without any installed one."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if package:
        environment["PYTHONPATH"] = str(BUILD / "python")
    return subprocess.run([sys.executable, *([] if package else ["-S"]), *arguments], cwd=ROOT,
                          env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_the_package_is_found_behind_the_sources():
    ran = python("-c", "import slimpack, slimpack.report; print(slimpack.__file__); "
                       "print(slimpack.planner_names())")
    assert ran.returncode == 0, ran.stderr
    where, planners = ran.stdout.splitlines()
    assert Path(where).samefile(BUILD / "python" / "slimpack" / "__init__.py")
    assert "slimpack" in planners


def test_its_modules_run():
    ran = python("-m", "slimpack", "--help")
    assert ran.returncode == 0 and "SlimPack" in ran.stdout


def test_without_the_package_one_line_says_what_to_do():
    ran = python("-c", "import slimpack", package=False)
    assert ran.returncode == 1 and ran.stdout == ""
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ") and "C++ sources" in last
    assert sys.executable in last and "'make build'" in last and "'pip install .'" in last
    # So says each try, as nothing half imported stays.
    twice = "try:\n    import slimpack\nexcept ImportError:\n    import slimpack"
    assert python("-c", twice, package=False).stderr.count("'make build'") == 2
