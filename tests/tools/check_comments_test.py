"""tools/check_comments.py finds every comment that begins in mid-sentence, and no other one."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "check_comments.py"


def run(root):
    """Exit code, output lines and error lines of the script."""
    done = subprocess.run([sys.executable, str(TOOL), str(root)],
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()


@pytest.fixture(name="checkout")
def fixture_checkout(tmp_path):
    """Makes a git checkout with these files."""
    def made(files):
        subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path
    return made


@pytest.mark.parametrize("opener", ["Of a pack.", "The same, in bytes.", "As above.",
                                    "Those of a rank.", "What a rank holds.", "Which ranks run."])
def test_a_comment_that_begins_in_mid_sentence_is_named_with_its_line(checkout, opener):
    root = checkout({
        "slimpack/a.h": f"/// {opener}\nint a();\n",
        "slimpack/b.cpp": f"int b() {{\n  // {opener}\n  return 1;\n}}\n",
        "slimpack/c.cu": f"//! {opener}\n",
        "tools/d.py": f"# {opener}\nX = 1\n",
        "tools/e.py": f'def e():\n    """{opener}"""\n',
        "tools/f.py": f'"""Numbers.\n\n{opener}\n"""\n',
        "tools/g.py": f'#!/usr/bin/env python3\n"""{opener}"""\n',
    })
    assert run(root) == (1, [
        f"slimpack/a.h:1: {opener}", f"slimpack/b.cpp:2: {opener}", f"slimpack/c.cu:1: {opener}",
        f"tools/d.py:1: {opener}", f'tools/e.py:2: {opener}"""', f"tools/f.py:3: {opener}",
        f'tools/g.py:2: {opener}"""'], [])


def test_every_paragraph_of_a_comment_is_looked_at(checkout):
    text = "/// Sums.\n///\n/// Of all ranks.\nint a();\n/// Likewise.\nint b();\n"
    root = checkout({"a.h": text})
    assert run(root) == (1, ["a.h:3: Of all ranks.", "a.h:5: Likewise."], [])


def test_sound_comments_and_what_is_none_pass(checkout):
    root = checkout({
        "a.h": "/// The bytes of a rank:\n/// What it holds, as the lines go on.\n"
               "int a;  ///< of a pack\n/// Official.\n/// What: a name with a colon.\n",
        "b.cpp": "// Which rank runs it?\nint b;\n",
        "c.py": '"""Sums.\nOf lines that go on."""\nC = """\nOf no docstring."""  # Of code\n',
        "d.md": "Of pages.\n",
        ".gitignore": "/build/\n",
        "build/e.h": "// Of a build.\n",
    })
    assert run(root) == (0, [], [])


def test_a_folder_that_is_no_checkout_is_refused(tmp_path):
    code, output, errors = run(tmp_path / "nowhere")
    assert (code, output, len(errors)) == (2, [], 1)
    assert "is no git checkout" in errors[0]
