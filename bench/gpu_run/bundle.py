#!/usr/bin/env python3
"""Makes the folder that goes to a machine with a GPU and without internet; run.py there needs no more
than a compiler, CMake, Ninja, and a Python with torch and transformers.

    python3 bench/gpu_run/bundle.py [--out build/gpu_bundle]

- source: what git tracks or would track;
- prefix: headers and libraries of Debian's packages, and HiGHS of the highspy wheel;
- site: Python packages without compiled code: nanobind, and Liger's kernels for the rival;
- fa4: the library of FlashAttention-4 (`make fa4`), if it is built.

Says what is missing, and fails above 64 MiB.
"""

import argparse
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
PACKAGES = ["libcli11-dev", "libfmt-dev", "libfmt9", "nlohmann-json3-dev", "libtomlplusplus-dev",
            "libtomlplusplus3", "libxxhash-dev", "libxxhash0", "zlib1g-dev", "zlib1g", "libgtest-dev",
            "libgmock-dev", "librapidcheck-dev"]
LIGER = "liger-kernel==0.8.5"
LARGEST = 64 << 20
_WANTED = re.compile(r"^(?:/usr)?/(include/.*|lib/x86_64-linux-gnu/.*|share/cmake/.*|share/.*\.cmake)$")


def copy(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def copy_sources(out):
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            cwd=SOURCE, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (SOURCE / name).is_file():
            copy(SOURCE / name, out / name)


def copy_prefix(out):
    """Returns the packages that are not installed here."""
    missing = []
    for package in PACKAGES:
        listed = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True)
        if listed.returncode:
            missing.append(package)
        for name in listed.stdout.splitlines():
            if (found := _WANTED.match(name)) and Path(name).is_file():
                copy(name, out / found[1])
    highs = importlib.util.find_spec("highspy")
    if highs is None:
        return [*missing, "highspy"]
    library = Path(highs.submodule_search_locations[0]) / "libhighs.so.1"
    copy(library, out / "lib" / "x86_64-linux-gnu" / library.name)
    return missing


def copy_wheels(out):
    """Returns the wheels that could not be had."""
    nanobind = re.search(r"^nanobind==\S+", (SOURCE / "requirements.txt").read_text(), re.MULTILINE)[0]
    missing = []
    for wheel in (nanobind, LIGER):
        with tempfile.TemporaryDirectory() as folder:
            got = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                                  "--only-binary=:all:", "--dest", folder, wheel],
                                 capture_output=True)
            if got.returncode:
                missing.append(wheel)
            for file in Path(folder).glob("*.whl"):
                zipfile.ZipFile(file).extractall(out)
    return missing


def copy_fa4(out):
    library = SOURCE / "build" / "release" / "libslimpack_fa4.so"
    if not library.exists():
        return ["libslimpack_fa4.so (make fa4)"]
    copy(library, out / library.name)
    return []


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=SOURCE / "build" / "gpu_bundle")
    out = parser.parse_args().out
    shutil.rmtree(out, ignore_errors=True)
    copy_sources(out / "source")
    missing = [*copy_prefix(out / "prefix"), *copy_wheels(out / "site"), *copy_fa4(out / "fa4")]
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    for name in missing:
        print(f"missing: {name}")
    print(f"{out}: {size / 2 ** 20:.1f} MiB; there: "
          "python3 source/bench/gpu_run/run.py --out results")
    if size > LARGEST:
        sys.exit(f"{size / 2 ** 20:.1f} MiB are more than {LARGEST >> 20}; leave something out")


if __name__ == "__main__":
    main()
