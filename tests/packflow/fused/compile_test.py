"""The fused kernels compile for every generation of GPUs that the build names, without spills, and
move arrays in pieces of 16 bytes. nvcc comes from PyPI (requirements-test.txt), so no CUDA is needed;
without it that of PATH does. No GPU runs anything here.
"""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
ROOM = ROOT / "slimpack/packflow/fused"
# Targets of nvcc, the same as in the room's CMakeLists.txt.
ARCHITECTURES = {"80": "sm_80", "90a": "sm_90a", "100": "sm_100"}
KERNELS = {"Swiglu": 1, "SwigluBackward": 1, "RmsNorm": 5, "RmsNormBackward": 5, "AddColumns": 1,
           "CrossEntropy": 1, "CrossEntropyBackward": 1, "Rope": 1, "NormedRope": 1,
           "NormedRopeBackward": 1}  # compiled once or by width
# Loads and stores of single values that a kernel may have: a row's target, its log-sum-exp.
MOST_SCALARS = 5


def cuda_tool(name):
    """The program's path, from the packages or from PATH."""
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations if spec else []:
        for found in Path(folder).glob(f"cu*/bin/{name}"):
            return str(found)
    found = shutil.which(name)
    assert found, f"{name} is missing: run 'make setup-tests', which installs it from PyPI"
    return found


def output(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The object file, of all architectures."""
    target = tmp_path_factory.mktemp("fused") / "launchers.o"
    codes = [f"-gencode=arch=compute_{number},code={code}" for number, code in ARCHITECTURES.items()]
    output(cuda_tool("nvcc"), "-std=c++20", "-O3", "-Xcompiler", "-fPIC", "-I", ROOT, *codes,
           "--threads", "2", "-c", ROOM / "launchers.cu", "-o", target)
    return target


def kernel_name(mangled):
    """run<lanes, blocks, Program>: the program's name."""
    length, rest = re.search(r"3runILi\d+ELi\d+ENS\d?_(?:\d*threads)?(\d+)(\w+)", mangled).groups()
    return rest[:int(length)]


def test_the_build_asks_for_these_architectures():
    asked = re.findall(r"arch=compute_(\w+),code=\[?(\w+)", (ROOM / "CMakeLists.txt").read_text())
    assert dict(asked) == ARCHITECTURES


def test_the_object_has_the_launchers(compiled):
    assert "cuda_launchers" in output("nm", "--demangle", "--defined-only", compiled)


@pytest.mark.parametrize("code", ARCHITECTURES.values())
def test_no_kernel_spills(compiled, code):
    usage = output(cuda_tool("cuobjdump"), "-arch", code, "-res-usage", compiled)
    found = re.findall(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", usage)
    times = {name: 0 for name in KERNELS}
    for name, registers, stack, local in found:
        times[kernel_name(name)] += 1
        assert int(stack) + int(local) == 0, f"{kernel_name(name)} spills"
        assert int(registers) <= 128
    assert times == KERNELS


@pytest.mark.parametrize("code", ARCHITECTURES.values())
def test_arrays_move_in_pieces_of_16_bytes(compiled, code):
    sass = output(cuda_tool("cuobjdump"), "-arch", code, "-sass", compiled)
    kernels = sass.split("Function :")[1:]
    assert len(kernels) == sum(KERNELS.values())
    for part in kernels:
        name = kernel_name(part.split("\n", 1)[0].strip())
        moves = re.findall(r"\b(LDG|STG|LDL|STL)\.(\S+)", part)
        wide = {kind for kind, size in moves if ".128" in size}
        # Cross-entropy forward writes scalars alone.
        assert wide == ({"LDG"} if name == "CrossEntropy" else {"LDG", "STG"}), name
        assert sum(".128" not in size for _, size in moves) <= MOST_SCALARS, name
