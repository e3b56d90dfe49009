"""Files in the repository that a program writes, and how a tool holds them to it."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def compare_or_write(texts, rule):
    """texts: by file. With `write` as the tool's second argument each is written. Otherwise prints a
    line with the rule for each that differs. Returns the tool's exit code."""
    stale = [file for file, text in texts.items() if not file.exists() or file.read_text() != text]
    if sys.argv[2:] == ["write"]:
        for file in stale:
            file.parent.mkdir(exist_ok=True)
            file.write_text(texts[file])
        return 0
    for file in stale:
        print(f"{file.relative_to(ROOT)}: not what the {rule}; "
              f"write it with tools/{Path(sys.argv[0]).name} build/release/python write")
    return 1 if stale else 0
