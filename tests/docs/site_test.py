"""The documentation's site builds without a warning, and the program draws its pictures."""

import html
import re
import subprocess
import sys
from pathlib import Path

from processes import BUILD

ROOT = Path(__file__).parents[2]


def text_of(page):
    """What a reader sees of a page in HTML."""
    return html.unescape(re.sub(r"<[^>]*>", "", page.read_text(encoding="utf-8")))


def test_the_site_builds_without_a_warning(tmp_path):
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict",
                           "--site-dir", tmp_path],
                          cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    python = text_of(tmp_path / "reference" / "index.html")
    assert "SlimPackSampler" in python and "max_tokens: no micro-batch holds more." in python
    headers = text_of(tmp_path / "reference-cpp" / "index.html")
    assert "Slices that run as one scheduling unit of one pass." in headers
    assert "struct MicroPack {\n  std::vector<Slice> slices;" in headers
    named = {page.parent.name: re.findall(r">[\w-]+\.md(?=<)", page.read_text(encoding="utf-8"))
             for page in tmp_path.rglob("index.html")}
    assert {page: files for page, files in named.items() if files} == {}  # a reader sees titles


def test_pictures_are_what_the_program_draws():
    done = subprocess.run([sys.executable, ROOT / "tools" / "draw_docs.py", BUILD / "python"],
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
