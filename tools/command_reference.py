"""The reference of commands: a hook of MkDocs (mkdocs.yml) that shows what the program prints.

Where a paragraph of a page is a command that ends with --help or --print-config, alone in backticks, what
it prints takes its place. The commands are those of the build folder SLIMPACK_BUILD (by default
build/release)."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

COMMAND = re.compile(r"^`((?:slimpack|python -m slimpack\.\w+)(?: \w+)* --(?:help|print-config))`$",
                     re.MULTILINE)
COLUMNS = 100


def on_page_markdown(markdown, config, **_):
    """Called by MkDocs for every page."""
    root = Path(config.config_file_path).parent
    build = root / os.environ.get("SLIMPACK_BUILD", "build/release")
    return COMMAND.sub(lambda match: shown(match[1], build), markdown)


def shown(command, build):
    """What the command prints, as a block of code."""
    language = "toml" if command.endswith("--print-config") else "text"
    return f"```{language}\n{printed(command, build).strip()}\n```"


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
