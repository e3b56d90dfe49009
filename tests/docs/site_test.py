"""The documentation: its site builds without a warning, its pictures are what the program draws, and its
Python examples run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from processes import BUILD

ROOT = Path(__file__).parents[2]


def test_the_site_builds_without_a_warning(tmp_path):
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", tmp_path],
                          cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SlimPackSampler" in (tmp_path / "reference" / "index.html").read_text()


def test_pictures_are_what_the_program_draws():
    done = subprocess.run([sys.executable, ROOT / "tools" / "draw_docs.py", BUILD / "python"],
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


# Runs before a page's examples: what the reader is said to have.
PREPARED = """
import os, sys
os.chdir({folder!r})
import torch
dataset = [{{"input_ids": torch.zeros(n, dtype=torch.int64)}} for n in (5, 6, 7)]
"""
RUN = """
[model]
config = "{root}/models/demo.json"
[data]
prefix = "corpus"
context = 256
step_tokens = 512
[hardware]
[output]
dir = "run"
"""


def examples(page):
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)
    assert blocks, page
    return "\n".join(blocks)


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_examples_run(page, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "text.txt").write_bytes(b"some text of the demo " * 40)
    (tmp_path / "run.toml").write_text(RUN.format(root=ROOT))
    subprocess.run([BUILD / "slimpack", "data", "build", "--from", tmp_path, "--glob", "text.txt", "--out",
                    tmp_path / "corpus"], check=True, capture_output=True)
    code = PREPARED.format(folder=str(tmp_path)) + examples(page)
    code = code.replace("train.steps=100", "train.steps=2")  # a hundred say no more
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(BUILD / "python")})
    assert done.returncode == 0, done.stderr
