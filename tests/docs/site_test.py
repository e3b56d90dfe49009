"""The documentation's site builds without a warning, and the program draws its pictures."""

import html
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from processes import BUILD

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from command_reference import printed  # noqa: E402
from repository_link import web_address  # noqa: E402


def help_of(command):
    return printed(command, BUILD)


def text_of(page):
    """The text that a reader sees of a page in HTML."""
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
    commands = text_of(tmp_path / "commands" / "index.html")
    listed = re.findall(r"^  (\w+) {2,}", help_of("slimpack --help"), re.MULTILINE)
    assert len(listed) > 10
    for command in listed:
        assert f"slimpack {command}" in commands, command
    assert "auto|CHECKPOINT" in commands and "slimpack train --help" not in commands
    keys = re.findall(r"^(?:# )?(\w+) = ", printed("slimpack train --print-config", BUILD), re.MULTILINE)
    cells = re.findall(r"<tr>\s*<td><code>(\w+)</code></td>",
                       (tmp_path / "run-file" / "index.html").read_text(encoding="utf-8"))
    assert cells == keys and len(keys) > 60
    found = json.loads((tmp_path / "search" / "search_index.json").read_text(encoding="utf-8"))
    for word in ("SFT", "LoRA", "wandb", "Slurm"):
        assert any(word in part["text"] + part["title"] for part in found["docs"]), word
    named = {page.parent.name: re.findall(r">[\w-]+\.md(?=<)", page.read_text(encoding="utf-8"))
             for page in tmp_path.rglob("index.html")}
    assert {page: files for page, files in named.items() if files} == {}  # a reader sees titles


@pytest.mark.parametrize("remote, page", [
    ("git@host.org:owner/name.git", "https://host.org/owner/name"),
    ("ssh://git@host.org/owner/name.git", "https://host.org/owner/name"),
    ("https://user:secret@host.org/owner/name", "https://host.org/owner/name"),
    ("http://host.org/owner/name.git/", "https://host.org/owner/name"),
    ("/srv/git/name.git", None), ("../name", None), ("", None)])
def test_the_site_links_to_the_page_of_a_remote(remote, page):
    assert web_address(remote) == page


def test_pictures_are_what_the_program_draws():
    done = subprocess.run([sys.executable, ROOT / "tools" / "draw_docs.py", BUILD / "python"],
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
