"""The package that the Python tests see, and how they are chosen."""

import collections
import os
import sys
import zlib
from pathlib import Path

import pytest
from processes import BUILD

sys.path.insert(0, str(BUILD / "python"))  # forking.py passes it on: before all test modules


# A case in these rooms starts a program or trains a model; elsewhere it takes milliseconds.
LONG_CASES = {"apps", "draft", "packflow", "torch_pipeline", "trainer"}


def pytest_addoption(parser):
    parser.addoption("--sample", type=int, default=1, metavar="N",
                     help="of tests with parameters in rooms that train, of those with random cases (a "
                     "parameter 'seed') and of those marked 'cases', every N-th case alone, and an N-th of "
                     "hypothesis' examples; from 2 on none of those marked 'whole'")


def pytest_configure(config):
    os.environ["SLIMPACK_SAMPLE"] = str(config.getoption("--sample"))  # for tests/support/generated.py
    config.addinivalue_line("markers", "cases: many of one kind, of which a sample tells most")
    config.addinivalue_line("markers", "whole: runs something long that others test in parts")


def has_many_cases(item):
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    room = item.path.relative_to(Path(__file__).parent).parts[0]
    return ("seed" in parameters or item.get_closest_marker("cases") is not None
            or (bool(parameters) and room in LONG_CASES))


def sampled(items, every):
    """The items that run. A test with many cases begins with one of its first `every`, which its name
    chooses, so that tests with the same parameters do not all run the same one."""
    if every == 1:
        return items
    cases = collections.defaultdict(list)
    chosen = set()
    for item in items:
        if item.get_closest_marker("whole"):
            continue
        if has_many_cases(item):
            cases[item.path, item.originalname].append(item)
        else:
            chosen.add(item)
    for (_, name), of_test in cases.items():
        first = zlib.crc32(name.encode()) % min(every, len(of_test))
        chosen.update(of_test[first::every])
    return [item for item in items if item in chosen]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    every = config.getoption("--sample")
    chosen = sampled(items, every)
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = chosen
