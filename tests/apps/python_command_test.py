"""The Python that the program starts for commands that Python runs, and the words about one that cannot."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from program import BUILD, SLIMPACK

COMMANDS = [["generate", "MODEL", "a"], ["draft", "convert", "HEAD", "--out", "OUT"],
            ["data", "build", "--from", "IN", "--tokenizer", "TOKENIZER", "--out", "OUT"],
            ["data", "build", "--chat=x"], ["data", "inspect", "CHATS", "--show", "1", "--tokenizer", "TOKENIZER"]]


def run(*arguments, program=SLIMPACK, cwd=None, **environment):
    kept = {name: value for name, value in os.environ.items()
            if name not in ("SLIMPACK_PYTHON", "PYTHONPATH")}
    return subprocess.run([program, *arguments], env={**kept, **environment}, capture_output=True, text=True,
                          timeout=120, check=False, cwd=cwd)


def assert_refused(done, *parts):
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("slimpack: ") and done.stderr.count("\n") == 1, done.stderr
    for part in parts:
        assert str(part) in done.stderr


@pytest.mark.parametrize("arguments", COMMANDS)
def test_by_itself_it_takes_the_python_and_the_package_of_its_build(arguments, tmp_path):
    """Whatever lies in the working folder."""
    for name in ("slimpack", "json", "random", "torch"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken from the working folder')")
    done = run(*arguments, cwd=tmp_path)
    assert_refused(done)
    assert "working folder" not in done.stderr and "SLIMPACK_PYTHON" not in done.stderr
    assert run(*arguments[:2], "--tokenizer", "--help", cwd=tmp_path).returncode == 0


def other_python(folder, version):
    """A Python that says it is of another version: this one, whose compiled modules have other names."""
    start = folder / "python"
    start.write_text(f"#!/bin/sh\nexec {sys.executable} {folder}/as_other.py \"$@\"\n")
    start.chmod(0o755)
    suffix = f".cpython-{version[0]}{version[1]}-x86_64-linux-gnu.so"
    (folder / "as_other.py").write_text(
        "import importlib.machinery, sys\n"
        f"importlib.machinery.EXTENSION_SUFFIXES[:] = ['{suffix}']\n"
        f"sys.version_info = ({version[0]}, {version[1]}, 0)\n"
        "sys.path[0] = ''\n"
        "text, sys.argv = sys.argv[2], ['-c', *sys.argv[3:]]\nexec(text)\n")
    return start


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_python_of_another_version_is_named(arguments, tmp_path):
    done = run(*arguments, SLIMPACK_PYTHON=str(other_python(tmp_path, (3, 12))))
    assert_refused(done, f"was built for Python 3.{sys.version_info.minor}", "is Python 3.12",
                   "set SLIMPACK_PYTHON")


def bare_python(folder):
    """A Python without any package of its own."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin" / "python"


def test_a_python_that_lacks_a_library_is_named(tmp_path):
    done = run("generate", "m", "a", SLIMPACK_PYTHON=str(bare_python(tmp_path)))
    assert_refused(done, f"'{tmp_path}/bin/python' cannot run this command: No module named 'numpy'",
                   "set SLIMPACK_PYTHON")


def test_a_program_without_its_package_says_how_to_make_it(tmp_path):
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(SLIMPACK, alone)
    python = str(bare_python(tmp_path / "bare"))
    done = run("generate", "m", "a", program=alone / "slimpack", SLIMPACK_PYTHON=python)
    assert_refused(done, f"'{python}' has no package slimpack; run 'make build', or set SLIMPACK_PYTHON")
    # After a build of the program alone the modules are there and the compiled ones are not.
    shutil.copytree(BUILD / "python" / "slimpack", alone / "python" / "slimpack",
                    ignore=shutil.ignore_patterns("*.so", "bin"))
    done = run("generate", "m", "a", program=alone / "slimpack")
    assert_refused(done, f"the package in '{alone}/python/slimpack' is not built; run 'make build'")


def test_a_python_that_cannot_be_started_is_named():
    assert_refused(run("generate", "m", "a", SLIMPACK_PYTHON="/no/python"),
                   "cannot start '/no/python': No such file or directory; set SLIMPACK_PYTHON")


def test_an_old_python_reads_the_text_that_starts_it():
    """Nothing in it is younger than Python 3.3."""
    import ast
    text = (Path(__file__).parents[2] / "apps" / "slimpack" / "start_python.py").read_text()
    ast.parse(text, feature_version=(3, 4))
