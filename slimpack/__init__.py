"""The C++ sources. The Python package of this name lies elsewhere (`python/slimpack`, compiled by `make
build` or `pip install .`). Python looks into the current folder first, so from the repository's root
`import slimpack` comes here: this hands over to the package."""

import importlib.machinery
import importlib.util
import os
import sys


def _compiled_package():
    """Where the package lies on the path behind this folder; None = nowhere."""
    here = os.path.realpath(os.path.dirname(__file__))
    others = [place for place in sys.path if os.path.realpath(os.path.join(place, "slimpack")) != here]
    found = importlib.machinery.PathFinder.find_spec("slimpack", others)
    return found if found is not None and found.loader is not None else None


def _hand_over():
    found = _compiled_package()
    if found is None:
        raise ImportError(
            f"{os.path.dirname(__file__)} has the C++ sources, and {sys.executable} has no package "
            f"slimpack; run 'make build' and use .venv/bin/python, or run 'pip install .'")
    package = importlib.util.module_from_spec(found)
    sys.modules["slimpack"] = package
    found.loader.exec_module(package)


_hand_over()
