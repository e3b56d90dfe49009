#!/usr/bin/env python3
"""Lists comments that begin in mid-sentence: a reader cannot know what "Of a pack." completes.

    tools/check_comments.py [ROOT]

Looks at the C++, CUDA and Python files of a git checkout, docstrings among their comments. Prints
one line per finding (path:line: text) and exits with 1 when there is one.

The first word of a paragraph is none of OPENERS, unless its line is a question. Comments behind
code complete the name that they stand behind and are not looked at.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

OPENERS = "Of|The same|As|Those|What|Which|Whose|Likewise|Like|And|But|Also|Else|Or|Than"
MID_SENTENCE = re.compile(rf"(?:{OPENERS})\b(?!:)")
CPP_COMMENT = re.compile(r"\s*//[/!]?\s?(.*)")
PYTHON_COMMENT = re.compile(r"\s*#\s?(.*)")
PATTERNS = ["*.h", "*.cpp", "*.cuh", "*.cu", "*.py"]


def comment_lines(source: str, comment: re.Pattern) -> dict[int, str]:
    """The text of each line that is nothing but a comment, by line number."""
    lines = enumerate(source.splitlines(), 1)
    return {number: found[1] for number, line in lines if (found := comment.fullmatch(line))}


def docstring_lines(source: str) -> dict[int, str]:
    """The text of each line of a docstring, by line number."""
    lines = source.splitlines()
    texts = {}
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if ast.get_docstring(node, clean=False) is None:
            continue
        first, last = node.body[0].lineno, node.body[0].end_lineno
        texts |= {number: lines[number - 1].strip() for number in range(first, last + 1)}
        texts[first] = texts[first].lstrip("rR\"'")
    return texts


def findings(source: str, is_python: bool):
    """Yields (line number, text) of every paragraph that begins in mid-sentence."""
    kinds = [comment_lines(source, PYTHON_COMMENT if is_python else CPP_COMMENT)]
    if is_python:
        kinds.append(docstring_lines(source))
    for texts in kinds:
        for number, text in texts.items():
            begins = not texts.get(number - 1, "").strip()
            if begins and MID_SENTENCE.match(text) and not text.rstrip("\"' ").endswith("?"):
                yield number, text


def files_of(root: Path) -> list[Path]:
    """The checkout's files, but for ignored ones, in the order of their paths."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard",
         *PATTERNS], capture_output=True, text=True, check=True)
    files = sorted({root / name for name in listed.stdout.split("\0") if name})
    return [file for file in files if file.is_file()]  # a deleted file is listed until it is staged


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    try:
        files = files_of(root)
    except subprocess.CalledProcessError:
        print(f"check_comments: '{root}' is no git checkout: give the repository root",
              file=sys.stderr)
        return 2
    count = 0
    for file in files:
        source = file.read_text(encoding="utf-8")
        for number, text in sorted(findings(source, file.suffix == ".py")):
            print(f"{file.relative_to(root)}:{number}: {text}")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
