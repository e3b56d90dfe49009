import os
import subprocess
from pathlib import Path

import pytest
from program import Workspace


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return Workspace(tmp_path_factory.mktemp("apps"))


@pytest.fixture(scope="module")
def lengths(tmp_path_factory):
    """A list of 199 documents of 1 to 900 tokens."""
    file = tmp_path_factory.mktemp("lengths") / "lengths.txt"
    file.write_text("".join(f"{37 * n % 900 + 1}\n" for n in range(1, 200)))
    return file


def preloaded(tmp_path_factory, name):
    """An environment in which programs load a library of tests/support first."""
    source = Path(__file__).parents[1] / "support" / f"{name}.c"
    library = tmp_path_factory.mktemp("preload") / f"{name}.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return {**os.environ, "LD_PRELOAD": str(library)}


@pytest.fixture(scope="session")
def poor_file_system(tmp_path_factory):
    """An environment in which file systems have neither locks nor files without names."""
    return preloaded(tmp_path_factory, "poor_file_system")


@pytest.fixture(scope="session")
def few_threads(tmp_path_factory):
    """An environment in which a program starts so many threads: a function of their number."""
    environment = preloaded(tmp_path_factory, "no_threads")
    return lambda threads: {**environment, "THREADS_LEFT": str(threads)}
