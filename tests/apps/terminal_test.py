"""The commands print on terminals of 80 and 120 columns what people have looked at and kept.

SLIMPACK_GOLDEN=write writes the texts anew; read the difference before it is committed."""

import os
import re
from pathlib import Path

import pytest
from program import SLIMPACK
from terminal import on_terminal

GOLDEN = Path(__file__).parents[1] / "golden" / "terminal"
GRID = ["--set", "parallel.pp=4", "--set", "parallel.dp=2"]
STEP = ["run.toml", "--lengths", "lengths.txt", *GRID]
HELP = ["", "data", "data build", "data inspect", "data lengths", "profile", "layout", "plan", "fit",
        "compare", "sweep", "simulate", "train"]
COMMANDS = {
    "build": ["data", "build", "--from", "text", "--out", "built"],
    "inspect": ["data", "inspect", "--lengths", "lengths.txt"],
    "lengths": ["data", "lengths", "corpus"],
    "plan": ["plan", *STEP, "--out", "plan.json"],
    "plan-truncated": ["plan", *STEP, "--out", "truncated.json",
                       "--set", "data.long_documents=truncate"],
    "plan-steps": ["plan", *STEP, "--steps", "20", "--out", "longest.json"],
    "simulate": ["simulate", "plan.json", "--timeline", "trace.json"],
    "fit": ["fit", *STEP],
    "fit-too-large": ["fit", *STEP, "--set", "hardware.memory_bytes=1500000",
                      "--set", "plan.most_merged=1"],
    "compare": ["compare", *STEP],
    "compare-steps": ["compare", *STEP, "--steps", "20", "--set", "plan.memory_cap=3MB"],
    "layout": ["layout", *STEP, "--steps", "2"],
    "layout-sizes": ["layout", "run.toml", "--lengths", "lengths.txt", "--ranks", "4", "--steps", "2",
                     "--step-tokens", "2000,16000", "--set", "hardware.memory_bytes=1500000",
                     "--set", "plan.recompute=auto"],
    "sweep": ["sweep", *STEP, "--over", "packs=4,8,16,32,64", "--over", "granularity=64,16"],
    "sweep-misfits": ["sweep", *STEP, "--over", "memory_cap=1kB,2kB,3kB,4kB,2MB,none", "--over",
                      "cuts=any,symmetric"],
    "compare-capped": ["compare", *STEP, "--set", "plan.memory_cap=5MB",
                       "--set", "plan.most_merged=1"],
}


@pytest.fixture(scope="module")
def folder(workspace):
    """Everything by relative names, so that no text depends on where it is."""
    workspace.config("run")
    lengths = [37 * n % 900 + 1 for n in range(1, 60)] + [1500, 4000]
    (workspace.folder / "lengths.txt").write_text("".join(f"{n}\n" for n in lengths))
    on_terminal([SLIMPACK, *COMMANDS["plan"]], 80, cwd=workspace.folder)
    return workspace.folder


def without_planning_time(text):
    """How long planning took depends on the machine; its place stays as wide."""
    time = r"[\d.]+ (?:ns|µs|ms|s)|\d+ m \d\d s"
    text = re.sub(rf"^(planned in +)(?:{time})$", r"\1…", text, flags=re.MULTILINE)
    lines = text.splitlines(keepends=True)
    for i, line in enumerate(lines):
        if line.startswith("planned in "):  # of several steps
            lines[i] = re.sub(rf" +(?:{time})", lambda found: "…".rjust(len(found[0])), line)
    header = next((line for line in lines if "planned in" in line and "tokens/s" in line), None)
    if header:
        end = header.index("planned in") + len("planned in")
        begin = end - len("planned in")
        for i in range(lines.index(header) + 2, len(lines)):
            if not lines[i].strip():
                break
            lines[i] = lines[i][:begin] + "…".rjust(end - begin) + lines[i][end:]
    return "".join(lines)


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", HELP)
def test_help_fits_the_terminal_and_loses_no_word(command, columns):
    words = [*command.split(), "--help"]
    text, code = on_terminal([SLIMPACK, *words], columns)
    assert code == 0
    assert max(map(len, text.splitlines())) <= columns
    wide, _ = on_terminal([SLIMPACK, *words], 1000)
    assert text.split() == wide.split()
    options = text.replace("\r\n", "\n").partition("\nOptions:\n")[2].split("\n\n")[0]
    # A description stays in its column.
    assert [line for line in options.splitlines() if not line.startswith(("  -", " " * 30))] == []


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("name", COMMANDS)
def test_output_on_a_terminal(folder, name, columns):
    text, code = on_terminal([SLIMPACK, *COMMANDS[name]], columns, errors_too=False, cwd=folder)
    assert code in (0, 3), text
    text = without_planning_time(text.replace("\r\n", "\n"))
    assert max(map(len, text.splitlines())) <= columns
    golden = GOLDEN / f"{name}-{columns}.txt"
    if os.environ.get("SLIMPACK_GOLDEN") == "write":
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text()
