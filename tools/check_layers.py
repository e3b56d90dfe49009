#!/usr/bin/env python3
"""Checks the layout of the source: layers, who may include torch and HiGHS, file and function sizes.

    tools/check_layers.py [ROOT]

Prints one line per violation (path:line: rule) and exits with 1 when there is one.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from cpp_functions import functions_in  # noqa: E402

# The rooms below slimpack/, bottom-up: a room includes itself and rooms of lower layers only.
LAYERS = [
    ["base"],
    ["spec", "trace", "milp", "data"],
    ["plan"],
    ["cost"],  # above plan: its costs are those of MicroPacks
    ["zones"],
    ["schedule", "solver", "baselines"],
    ["sim"],
    ["packflow/device"],
    ["packflow/fused"],
    ["packflow/ranks"],
    ["packflow/parameters"],
    ["packflow/kernels"],
    ["packflow/decode", "packflow/sparse"],  # side by side
    ["packflow/stores"],
    ["packflow/layer"],
    ["packflow/step"],
    ["packflow/checkpoint", "packflow/profile"],  # side by side
    ["packflow/language"],
    ["packflow/speculate"],
    ["packflow/generate"],
    ["planner"],
    ["job", "report"],
    ["run"],
    ["training"],
]
LAYER_OF = {room: layer for layer, rooms in enumerate(LAYERS) for room in rooms}

# Whole houses of rooms: their files lie in the rooms, never beside them.
HOUSES = {"packflow"}

# The runtime executes plans and never makes them, and rooms that plan do so without the runtime,
# although these rooms lie below.
HIDDEN_FROM = {"packflow": {"solver", "baselines", "sim"}, "planner": {"packflow"},
               "job": {"packflow"}, "report": {"packflow"}, "run": {"packflow"}}

# Folders whose files may include every room; only what is below slimpack/ is layered.
OPEN_FOLDERS = ["apps", "tests", "bench", "python"]
# A folder here does not include its value, although it may include every room: both are programs of
# their own.
NOT_INCLUDED_BY = {"python": "apps"}
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TORCH = re.compile(r"^(ATen|c10|torch)/")
HIGHS = re.compile(r"^(highs/|interfaces/highs|Highs|HConfig)")


def room_of(path: Path) -> str | None:
    """The room of a path relative to the root, None outside slimpack/."""
    if path.parts[0] != "slimpack" or len(path.parts) <= 2:
        return None
    inner = path.parts[1] in HOUSES and len(path.parts) > 3
    return "/".join(path.parts[1:3] if inner else path.parts[1:2])


def house_of(room: str) -> str:
    """The house that a room belongs to; itself if to none."""
    return room.split("/")[0]


def include_errors(path: Path, text: str):
    """Yields (line, rule) for every include that `path` must not have."""
    room = room_of(path)
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, target = match.groups()
        top = target.split("/")[0]
        if TORCH.match(target) and room and house_of(room) != "packflow":
            yield number, f"{target}: torch is included in slimpack/packflow only"
        if HIGHS.match(target) and room != "milp":
            yield number, f"{target}: HiGHS is included in slimpack/milp only"
        if quote == '"' and top not in ["slimpack", *OPEN_FOLDERS]:
            yield number, f'"{target}": give the path from the repository root'
        if room and top in OPEN_FOLDERS:
            yield number, f"{target}: a room does not include {top}/"
        if NOT_INCLUDED_BY.get(path.parts[0]) == top:
            yield number, f"{target}: {path.parts[0]}/ does not include {top}/"
        if room and top == "slimpack":
            yield from ((number, rule) for rule in room_errors(room, target))


def room_errors(room: str, target: str):
    """Yields the rules that an include of slimpack/… from `room` breaks."""
    other = room_of(Path(target))
    if room not in LAYER_OF or other not in LAYER_OF:
        unknown = room if room not in LAYER_OF else other
        yield f"{target}: room '{unknown}' has no layer in tools/check_layers.py"
    elif other == room:
        return
    elif LAYER_OF[other] >= LAYER_OF[room]:
        yield (f"{target}: {room} (layer {LAYER_OF[room]}) includes lower layers only,"
               f" {other} is on layer {LAYER_OF[other]}")
    elif house_of(other) in HIDDEN_FROM.get(house_of(room), ()):
        yield f"{target}: {room} does not see {other}"


def place_errors(path: Path):
    """Yields (line, rule) for a file that lies in a house but in none of its rooms."""
    if room_of(path) in HOUSES:
        yield 1, f"files of {path.parent} lie in its rooms, never beside them"


def size_errors(path: Path, text: str):
    """Yields (line, rule) for what is too long, and for headers without an opening comment."""
    lines = text.count("\n")
    if lines > MAX_FILE_LINES:
        yield lines, f"{lines} lines, a file has at most {MAX_FILE_LINES}"
    if path.suffix == ".h" and not text.startswith(("//", "/*")):
        yield 1, "a header starts with a comment that says what it is for"
    if path.suffix in (".h", ".cpp"):
        for function in functions_in(text):
            if function.lines > MAX_FUNCTION_LINES:
                yield (function.begin, f"{function.name} has {function.lines} lines, a function"
                                       f" has at most {MAX_FUNCTION_LINES}")


def check(root: Path) -> list[str]:
    """Every violation below `root`, one line each, in the order of the paths."""
    errors = []
    for folder in ["slimpack", *OPEN_FOLDERS, "tools"]:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in (".h", ".cpp", ".py", ".sh"):
                continue
            path = file.relative_to(root)
            text = file.read_text(encoding="utf-8")
            found = list(size_errors(path, text))
            if file.suffix in (".h", ".cpp"):
                found += [*place_errors(path), *include_errors(path, text)]
            errors += [f"{path}:{line}: {rule}" for line, rule in found]
    return errors


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    if not (root / "slimpack").is_dir():
        print(f"check_layers: '{root}' has no folder slimpack: give the repository root",
              file=sys.stderr)
        return 2
    errors = check(root)
    for error in errors:
        print(error)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
