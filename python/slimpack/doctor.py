"""Says what of SlimPack runs on this machine, what is missing, and what would bring it.

Every figure is of this machine as this Python sees it. Nothing is trained, installed or written.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import textwrap
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from slimpack import __version__, _planner, runtime
from slimpack.command_line import end, exit_code
from slimpack.one_line_parser import OneLineParser

EPILOG = """example:
  {prog} --json found.json
"""
OLDEST_TORCH = (2, 10)  # the first with Tensor.grad_dtype, which slimpack.torch sets
LIBRARIES = ("transformers", "safetensors", "peft", "tokenizers", "pyarrow", "tensorboard", "wandb")
FA4 = "libslimpack_fa4.so"
FA4_PLACES = (".", "../..", "..", "../../..")  # beside the compiled modules; the runtime looks there, too
COLUMNS = 80


@dataclass(frozen=True)
class Ability:
    """Something that SlimPack does, whether it runs here, and on what or what it lacks."""

    what: str
    runs: bool
    detail: str


def version_of(package):
    """The installed version, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def memory_bytes():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def gpus():
    """Name and memory of each GPU, as the driver's own tool lists them; it needs no torch."""
    if shutil.which("nvidia-smi") is None:
        return []
    listed = subprocess.run(["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"],
                            capture_output=True, text=True, timeout=60, check=False)
    return [line.strip() for line in listed.stdout.splitlines() if line.strip()] if listed.returncode == 0 else []


def compiler(program):
    """The first version number that the program prints, or None."""
    if shutil.which(program) is None:
        return None
    told = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    return next((word.strip(",V") for word in reversed(told.split()) if word[:1].isdigit() and "." in word), "found")


def fa4_library():
    """The file of FlashAttention-4 that the runtime would open, or None."""
    given = os.environ.get("SLIMPACK_FA4")
    package = Path(_planner.__file__).parent
    places = [Path(given)] if given else [package / place / FA4 for place in FA4_PLACES]
    return next((str(place.resolve()) for place in places if place.is_file()), None)


def found():
    """Returns what the machine has, by name; None for what is missing."""
    return {
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
                  f"{memory_bytes() / 2**30:.1f} GiB",
        "GPUs": gpus(),
        "Python": f"{platform.python_version()}, {sys.executable}",
        "torch": version_of("torch"),
        **{name: version_of(name) for name in LIBRARIES},
        "g++": compiler("g++"),
        "nvcc": compiler("nvcc"),
        "FlashAttention-4": fa4_library(),
    }


def with_packages(things, what, packages, extra):
    """Returns an ability that needs the packages, which pip installs with this extra of slimpack."""
    missing = [name for name in packages if things[name] is None]
    return Ability(what, not missing, f"pip install '{extra}'" if missing else "")


def any_decoder(things, place):
    what, here = "train any Hugging Face decoder", things["torch"]
    if here is None:
        return Ability(what, False, "pip install torch transformers")
    if tuple(int(part) for part in here.split("+")[0].split(".")[:2]) < OLDEST_TORCH:
        return Ability(what, False, "pip install 'torch>={}.{}'".format(*OLDEST_TORCH))
    if things["transformers"] is None:
        return Ability(what, False, "pip install transformers")
    return Ability(what, True, place)


def packflow(place):
    what = "train, profile, validate (PackFlow)"
    try:
        runtime.check_torch()
    except ImportError as error:
        return Ability(what, False, str(error))
    return Ability(what, True, place)


def kernels(things, usable):
    what, build = "PackFlow's CUDA kernels", runtime.packflow_build()
    if not things["GPUs"]:
        return Ability(what, False, "no GPU is found")
    if build is None or not build.CUDA_KERNELS:
        return Ability(what, False, "build PackFlow with nvcc and a torch for CUDA; until then torch's own")
    return Ability(what, usable, f"for {build.CUDA_KERNELS}")


def flash_attention_4(things, usable):
    what, library = "FlashAttention-4 (Hopper)", things["FlashAttention-4"]
    if not things["GPUs"]:
        return Ability(what, False, "no GPU is found")
    if library is None:
        return Ability(what, False, "make fa4; until then FlashAttention-2 of torch")
    return Ability(what, usable, library)


def abilities(things):
    """Returns an Ability for each thing that users do, in the order in which they come to it. things: of
    found()."""
    torch = things["torch"]
    usable = bool(things["GPUs"]) and torch is not None and "+cpu" not in torch
    place = f"on {len(things['GPUs'])} GPUs and on CPUs" if usable else "on CPUs"
    if things["GPUs"] and torch is not None and not usable:
        place += "; this torch knows no CUDA"
    return [
        Ability("plan, compare, layout, fit, sweep", True, "needs no GPU"),
        Ability("data build from bytes or .npy files", True, ""),
        with_packages(things, "data build with a tokenizer", ["tokenizers"], "slimpack[text]"),
        with_packages(things, "data build from Parquet", ["tokenizers", "pyarrow"], "slimpack[parquet]"),
        packflow(place),
        any_decoder(things, place),
        with_packages(things, "adapters (LoRA)", ["torch", "transformers", "peft"], "slimpack[lora]"),
        with_packages(things, "draft heads", ["torch", "transformers", "safetensors"], "slimpack[draft]"),
        kernels(things, usable),
        flash_attention_4(things, usable),
        with_packages(things, "metrics for TensorBoard", ["tensorboard"], "slimpack[tensorboard]"),
        with_packages(things, "metrics for wandb", ["wandb"], "slimpack[wandb]"),
    ]


def built():
    """One line: this package, and what was built into it."""
    build = runtime.packflow_build()
    if build is None:
        return f"slimpack {__version__}, without PackFlow"
    kernels_for = f"CUDA kernels for {build.CUDA_KERNELS}" if build.CUDA_KERNELS else "no CUDA kernels"
    return f"slimpack {__version__}, PackFlow for torch {build.TORCH}, {kernels_for}"


def shown(value):
    if not value:
        return "none"
    return "; ".join(value) if isinstance(value, list) else value


def folded(name, text, width):
    """Lines of the text beside its name, in a column of this width."""
    return textwrap.wrap(text, COLUMNS, initial_indent=f"{name:{width}}  ", break_on_hyphens=False,
                         subsequent_indent=" " * (width + 2)) or [name.rstrip()]


def report(things, rows):
    """Lines of at most 80 columns, but for words that are longer."""
    libraries = ", ".join(f"{name} {things[name] or '(none)'}" for name in LIBRARIES)
    facts = {name: shown(things[name]) for name in ("system", "GPUs", "Python", "torch")}
    facts |= {"packages": libraries,
              "compilers": f"g++ {things['g++'] or '(none)'}, nvcc {things['nvcc'] or '(none)'}"}
    lines = [built(), ""]
    for name, text in facts.items():
        lines += folded(name, text, max(map(len, facts)))
    width = max(len(row.what) for row in rows)
    lines += ["", f"{'':{width}}  runs", f"{'─' * width}  ────"]
    for row in rows:
        lines += folded(f"{row.what:{width}}  {'yes' if row.runs else 'no':4}", row.detail, width + 6)
    return "\n".join(lines)


def examine(options):
    things = found()
    rows = abilities(things)
    if options.json:
        text = json.dumps({"built": built(), "found": things, "abilities": [asdict(row) for row in rows]}, indent=2)
        if options.json == "-":
            print(text)
            return
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    print(report(things, rows))


def main(argv=None, prog="slimpack doctor"):
    """Prints what runs here. The exit code: 0, 2 where the file cannot be written."""
    parser = OneLineParser(prog=prog, description=__doc__, epilog=EPILOG.format(prog=prog))
    parser.add_argument("--json", metavar="FILE", help="also write it as JSON; - prints that alone")
    options = parser.parse_args(argv)
    return exit_code(lambda: examine(options))


if __name__ == "__main__":
    end(main)
