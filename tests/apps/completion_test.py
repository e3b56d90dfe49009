"""Completion by the shells themselves: each reads the script that the program prints and is asked for words."""

import shutil
import subprocess

import pytest
from program import SLIMPACK

# The words so far, the last one to be completed, and what must and must not be offered.
LINES = [
    (["pla"], {"plan"}, {"profile"}),
    (["data", ""], {"build", "inspect", "lengths"}, {"plan"}),
    (["plan", "run.toml", "--len"], {"--lengths"}, {"--out"}),
    (["data", "build", "--gl"], {"--glob"}, {"--json"}),
    (["layout", "--price"], {"--price-per-gpu-hour"}, set()),
    (["completion", ""], {"bash", "zsh", "fish"}, {"build"}),
]


def script(shell):
    done = subprocess.run([SLIMPACK, "completion", shell], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return done.stdout


def offered(shell, program, folder):
    done = subprocess.run([shell, "-c", program], capture_output=True, text=True, timeout=60, check=True, cwd=folder)
    assert done.stderr == ""
    return {line.split("\t")[0] for line in done.stdout.splitlines()}


def by_bash(words, folder):
    typed = " ".join(f"'{word}'" for word in ["slimpack", *words])
    return offered("bash", f"""{script("bash")}
COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _slimpack; printf '%s\\n' "${{COMPREPLY[@]}}" """, folder)


def by_fish(words, folder):
    typed = " ".join(["slimpack", *words])
    return offered("fish", f"{script('fish')}\ncomplete -C '{typed}'", folder)


def by_zsh(words, folder):
    """Zsh completes in its line editor alone, so that its functions are stood in for."""
    typed = " ".join(f"'{word}'" for word in ["slimpack", *words])
    program = f"""compdef() {{ :; }}; _files() {{ :; }}
_describe() {{ local list=$2; for word in "${{(@P)list}}"; do print -r -- "${{word%%:*}}"; done; }}
{script("zsh")}
words=({typed}); CURRENT={len(words) + 1}; _slimpack"""
    return {word for word in offered("zsh", program, folder) if word.startswith(words[-1])}


SHELLS = {"bash": by_bash, "fish": by_fish, "zsh": by_zsh}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_offers_commands_and_options(shell, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")
    for words, wanted, unwanted in LINES:
        found = SHELLS[shell](words, tmp_path)
        assert wanted <= found and not unwanted & found, (words, found)


def test_the_help_says_where_the_script_goes():
    done = subprocess.run([SLIMPACK, "completion", "--help"], capture_output=True, text=True, timeout=60, check=True)
    assert 'eval "$(slimpack completion bash)"' in done.stdout


def test_a_shell_that_is_not_known_is_one_line():
    done = subprocess.run([SLIMPACK, "completion", "powershell"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "bash, zsh, fish" in done.stderr
