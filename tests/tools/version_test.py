"""The version stands where build tools and packages read it, and is the same everywhere."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_is_that_of_cmake_everywhere():
    version = re.search(r"^project\(slimpack VERSION (\S+) ", text_of("CMakeLists.txt"), re.MULTILINE)[1]
    package, packflow = (tomllib.loads(text_of(name))["project"] for name in ("pyproject.toml", "packflow/pyproject.toml"))
    assert (package["version"], packflow["version"]) == (version, version)
    # Each package takes the other of its own version.
    assert package["optional-dependencies"]["train"] == [f"slimpack-packflow=={version}"]
    assert f"slimpack=={version}" in packflow["dependencies"]
    assert re.search(r"^## (\S+)", text_of("CHANGELOG.md"), re.MULTILINE)[1] == version
