"""The reference of commands: a hook of MkDocs (mkdocs.yml) that shows what the program prints.

Where a paragraph of a page is a command that ends with --help or --print-config, alone in backticks, what
it prints takes its place: help as a block of code, keys as a table for each section. The commands are those
of the build folder SLIMPACK_BUILD (by default build/release)."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

COMMAND = re.compile(r"^`((?:slimpack|python -m slimpack\.\w+)(?: [\w-]+)* --(?:help|print-config))`$",
                     re.MULTILINE)
COLUMNS = 100
SECTION = re.compile(r"(?:# )?\[(\w+)\]")
KEY = re.compile(r"(# )?(\w+) = (.*?) +# (.*)")


def on_page_markdown(markdown, config, **_):
    """Called by MkDocs for every page."""
    root = Path(config.config_file_path).parent
    build = root / os.environ.get("SLIMPACK_BUILD", "build/release")
    return COMMAND.sub(lambda match: shown(match[1], build), markdown)


def shown(command, build):
    """The text that the command prints, as Markdown."""
    text = printed(command, build).strip()
    return keys(text) if command.endswith("--print-config") else f"```text\n{text}\n```"


def keys(text):
    """A run file's keys as tables. A key that stands in a comment has no default, or needs its section."""
    lines = []
    for line in text.splitlines():
        if section := SECTION.fullmatch(line):
            lines += ["", f"## [{section[1]}]", "", "| key | default | |", "|---|---|---|"]
        elif key := KEY.fullmatch(line):
            default = f"`{key[3]}`" if key[3] and not key[1] else ""
            meaning = key[4].replace("|", "\\|").replace("<", "&lt;")
            lines.append(f"| `{key[2]}` | {default} | {meaning} |")
    return "\n".join(lines)


def printed(command, build):
    """Raises RuntimeError with what a command says that fails."""
    words = shlex.split(command)
    program = {"slimpack": build / "slimpack", "python": sys.executable}[words[0]]
    done = subprocess.run([program, *words[1:]], capture_output=True, text=True, check=False,
                          env={**os.environ, "COLUMNS": str(COLUMNS), "SLIMPACK_PYTHON": sys.executable,
                               "PYTHONPATH": str(build / "python")})
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stderr}")
    return done.stdout
