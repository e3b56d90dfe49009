#!/usr/bin/env python3
"""Types of the compiled Python modules: what editors and type checkers read.

    tools/python_stubs.py BUILD/python [write]

Prints a line for each stub below python/slimpack that is not what the built modules say, and exits with
1 when there is one; with `write`, writes it.
"""

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODULES = ["_planner", "_training"]


def stub_of(name):
    from nanobind.stubgen import StubGen

    module = importlib.import_module(f"slimpack.{name}")
    stubs = StubGen(module=module, quiet=True)
    stubs.put(module)
    return stubs.get()


def main():
    sys.path.insert(0, sys.argv[1])
    import torch  # noqa: F401  before slimpack._training, which links to it

    stale = 0
    for name in MODULES:
        file = ROOT / "python" / "slimpack" / f"{name}.pyi"
        text = stub_of(name)
        if file.exists() and file.read_text() == text:
            continue
        if sys.argv[2:] == ["write"]:
            file.write_text(text)
        else:
            print(f"{file.relative_to(ROOT)}: not what the built module says; "
                  "write it with tools/python_stubs.py build/release/python write")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
