"""llama.cpp, built for the processor at hand, with its Python bindings in an environment of its own.

Wheels of PyPI are built for processors of every kind. The sources in llama-cpp-python are compiled
with -march=native, so that the kernels for AVX-512, AVX512_BF16 and AMX are in.
"""

import os
import subprocess
import sys
import tarfile

from commands import run

VERSION = "0.3.36"
FLAGS = "-DGGML_NATIVE=ON -DGGML_OPENMP=ON -DGGML_CCACHE=OFF -DLLAVA_BUILD=OFF"


def python_of(folder):
    """The interpreter that has the bindings."""
    return folder / "environment" / "bin" / "python"


def is_built(folder):
    python = python_of(folder)
    return python.exists() and subprocess.run(
        [python, "-c", f"import llama_cpp; assert llama_cpp.__version__ == '{VERSION}'"],
        check=False, capture_output=True).returncode == 0


def unpack(folder):
    archive = folder / f"llama_cpp_python-{VERSION}.tar.gz"
    if not archive.exists():
        run([sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:",
             "--dest", folder, f"llama-cpp-python=={VERSION}"], "downloading the sources (77 MB)",
            folder / "download.log")
    source = folder / f"llama_cpp_python-{VERSION}"
    if not (source / "unpacked").exists():
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        (source / "unpacked").touch()
    return source


def build(folder):
    """Goes on where a build was stopped: its objects stay in folder/build."""
    folder.mkdir(parents=True, exist_ok=True)
    source = unpack(folder)
    if not python_of(folder).exists():
        run([sys.executable, "-m", "venv", folder / "environment"], "making an environment",
            folder / "environment.log")
    run([python_of(folder), "-m", "pip", "install", "--verbose",
         "--config-settings", f"build-dir={folder / 'build'}", source], "compiling llama.cpp",
        folder / "build.log", env={**os.environ, "CMAKE_ARGS": FLAGS})
