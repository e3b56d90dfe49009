"""The package that the Python tests see, and how they are chosen."""

import collections
import sys

import pytest
from processes import BUILD

sys.path.insert(0, str(BUILD / "python"))  # forking.py passes it on: before all test modules


def pytest_addoption(parser):
    parser.addoption("--sample", type=int, default=1, metavar="N",
                     help="of tests with random cases (a parameter 'seed') and of those marked "
                     "'cases', every N-th case alone; from 2 on none of those marked 'whole'")


def pytest_configure(config):
    config.addinivalue_line("markers", "cases: many of one kind, of which a sample tells most")
    config.addinivalue_line("markers", "whole: runs something long that others test in parts")


def in_sample(item, counts, every):
    if item.get_closest_marker("whole"):
        return every == 1
    random = "seed" in getattr(getattr(item, "callspec", None), "params", {})
    if not random and not item.get_closest_marker("cases"):
        return True
    test = (item.path, item.originalname)
    counts[test] += 1
    return counts[test] % every == 1 % every


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    counts = collections.Counter()
    every = config.getoption("sample")
    chosen = [item for item in items if in_sample(item, counts, every)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen
