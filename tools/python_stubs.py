#!/usr/bin/env python3
"""Types of the compiled Python modules: what editors and type checkers read.

    tools/python_stubs.py BUILD/python [write]

Prints a line for each stub below python/slimpack that is not what the built modules say, and exits with
1 when there is one; with `write`, writes it.
"""

import importlib
import sys

from generated_files import ROOT, compare_or_write

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

    package = ROOT / "python" / "slimpack"
    return compare_or_write({package / f"{name}.pyi": stub_of(name) for name in MODULES},
                            "built module says")


if __name__ == "__main__":
    sys.exit(main())
