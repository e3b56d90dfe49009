"""tools/setup.sh on machines that lack something: one line on stderr, exit code 2, and no harm.

Commands that the script calls are replaced by small scripts that come first on PATH.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Machine:
    """A copy of what the script needs, with commands of its own."""

    def __init__(self, folder):
        self.root = folder / "checkout"
        self.bin = folder / "bin"
        self.bin.mkdir()
        shutil.copytree(ROOT / "tools", self.root / "tools")
        for name in ("requirements.txt", "requirements-test.txt"):
            shutil.copy(ROOT / name, self.root)
        # By default the machine has everything but the Python packages, and plenty of memory and disk.
        self.command("df", "echo; echo 'disk 99999 1 50000 1% /'")
        self.memory_mib(16384)
        self.python("exit 0")
        self.library = folder / "libclang_rt.fuzzer-any.a"
        self.library.touch()
        self.command("clang++", f"echo '\"{self.library}\"' >&2")

        self.command("chromium", "exit 0")

    def command(self, name, body):
        self._script(self.bin / name, body)

    def python(self, pip):
        """An interpreter in .venv whose pip does `pip`; it has to be there for `-c ''` too."""
        path = self.root / ".venv" / "bin" / "python"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._script(path, f'[ "$1" = -c ] && exit 0\necho "$@" >> {self.root}/pip_calls\n{pip}')

    def memory_mib(self, mib):
        self.command("awk", f'case "$1" in *MemAvailable*) echo {mib};; *) /usr/bin/awk "$@";; esac')

    def compiler(self, version="12.2.0", missing=""):
        self.command("c++-test", f'case "$*" in *-dumpfullversion*) echo {version};; '
                                 f'*) cat > /dev/null; echo "{missing}";; esac')

    def run(self, what="tests", **environment):
        kept = {k: v for k, v in os.environ.items() if k not in ("CXX", "SLIMPACK_TORCH_INDEX")}
        compiler = {"CXX": "c++-test"} if (self.bin / "c++-test").exists() else {}
        return subprocess.run(["tools/setup.sh", *what.split()], cwd=self.root,
                              capture_output=True, text=True, check=False,
                              env={**kept, **compiler, **environment,
                                   "PATH": f"{self.bin}:{os.environ['PATH']}"})

    def pip_calls(self):
        path = self.root / "pip_calls"
        return path.read_text().splitlines() if path.exists() else []

    @staticmethod
    def _script(path, body):
        path.write_text("#!/bin/sh\n" + body + "\n")
        path.chmod(0o755)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def fails_with(done, *parts):
    """One line on stderr that holds all the parts, exit code 2."""
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("setup: ")
    for part in parts:
        assert part in done.stderr


def test_what_is_there_is_not_installed_again(machine):
    machine.command("apt-get", f"touch {machine.root}/apt_was_called; exit 1")
    first, second = machine.run(), machine.run()
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert len(machine.pip_calls()) == 1  # the stamp makes the second run do nothing
    assert not (machine.root / "apt_was_called").exists()


def test_changed_requirements_are_installed(machine):
    machine.run()
    with open(machine.root / "requirements.txt", "a", encoding="utf-8") as file:
        file.write("another==1.0\n")
    assert machine.run().returncode == 0
    assert len(machine.pip_calls()) == 2


def test_an_index_for_torch_serves_torch_only(machine):
    assert machine.run(SLIMPACK_TORCH_INDEX="https://example.org/cpu").returncode == 0
    torch, others = machine.pip_calls()
    assert "--index-url https://example.org/cpu torch==" in torch
    assert "-r requirements.txt" in others and "example.org" not in others


def test_a_clang_without_its_runtime_library_is_not_enough(machine):
    machine.library.unlink()
    machine.command("id", "echo 0")
    machine.command("apt-get", "echo 'Err: Could not resolve deb.debian.org'; exit 100")
    fails_with(machine.run(), "cannot install clang libclang-rt-dev", "no network")


def test_the_program_needs_nothing_of_what_tests_need(machine):
    machine.library.unlink()  # of clang
    machine.command("apt-get", f"touch {machine.root}/apt_was_called; exit 1")
    done = machine.run("")
    assert done.returncode == 0, done.stderr
    assert not (machine.root / "apt_was_called").exists()
    [call] = machine.pip_calls()
    assert "-r requirements.txt" in call and "requirements-test.txt" not in call


def test_packages_of_tests_come_when_tests_are_wanted(machine):
    assert [machine.run(what).returncode for what in ("", "tests", "")] == [0, 0, 0]
    program, tests = machine.pip_calls()  # the third run finds everything
    assert "requirements-test.txt" not in program
    assert "-r requirements-test.txt" in tests


def test_an_unknown_purpose_is_refused(machine):
    fails_with(machine.run("everything"), "'everything' is not known", "'tests'")


def test_missing_packages_without_network_are_named(machine):
    machine.compiler(missing="libfmt-dev")
    machine.command("id", "echo 0")
    machine.command("apt-get", "echo 'Err: Could not resolve deb.debian.org'; exit 100")
    fails_with(machine.run(), "cannot install libfmt-dev", "no network")


def test_missing_packages_are_installed_with_sudo(machine):
    machine.compiler(missing=f"$(cat {machine.root}/missing)")
    (machine.root / "missing").write_text("libfmt-dev")
    machine.command("id", "echo 1000")
    machine.command("sudo", f'echo "$@" >> {machine.root}/sudo_calls; exec "$@"')
    machine.command("apt-get", f'case "$*" in *install*) : > {machine.root}/missing;; esac')
    done = machine.run()
    assert done.returncode == 0, done.stderr
    assert "install -y --no-install-recommends libfmt-dev" in (
        machine.root / "sudo_calls").read_text()


def test_missing_packages_without_sudo_are_named_with_the_command(machine):
    machine.compiler(missing="libgtest-dev")
    machine.command("id", "echo 1000")
    tools = "apt-get echo make cmake ninja ccache mold clang-format mkdir grep tail xargs tr cut cat cmp env bash"
    for tool in ("dirname", "head", "sort", *tools.split()):
        if not (machine.bin / tool).exists() and shutil.which(tool):
            (machine.bin / tool).symlink_to(shutil.which(tool))
    (machine.bin / "python3").symlink_to("/bin/true")
    # Nothing but these commands: no sudo wherever this runs.
    done = subprocess.run([shutil.which("bash"), "tools/setup.sh", "tests"], cwd=machine.root,
                          text=True, capture_output=True, check=False,
                          env={"PATH": str(machine.bin), "CXX": "c++-test"})
    fails_with(done, "libgtest-dev", "no sudo", "run 'apt-get install libgtest-dev' as root")


def test_packages_that_apt_does_not_deliver_are_named(machine):
    machine.compiler(missing="librapidcheck-dev")
    machine.command("id", "echo 0")
    machine.command("apt-get", "exit 0")
    fails_with(machine.run(), "still missing after apt-get: librapidcheck-dev")


def test_an_old_compiler_is_named_with_the_remedy(machine):
    machine.compiler(version="11.4.0")
    fails_with(machine.run(), "c++-test 11.4.0 is too old", "12 or newer", "CXX=")


def test_an_old_cmake_is_named(machine):
    machine.command("cmake", "echo cmake version 3.22.1")
    fails_with(machine.run(), "cmake 3.22.1 is too old", "3.25 or newer")


def test_too_little_memory_is_named(machine):
    machine.memory_mib(1000)
    fails_with(machine.run(), "1000 MiB of memory are available", "need 4096")
    assert not machine.pip_calls()


def test_too_little_disk_is_named(machine):
    machine.command("df", "echo; echo 'disk 99999 1 2000 1% /'")
    fails_with(machine.run(), "2000 MiB are free", "need 4096")


def test_python_packages_without_network_are_a_clear_line_and_no_stamp(machine):
    machine.python("echo 'WARNING: Retrying: Failed to establish a new connection'; exit 1")
    fails_with(machine.run(), "cannot install the Python packages", "no network")
    machine.python("exit 0")
    assert machine.run().returncode == 0
    assert len(machine.pip_calls()) == 2  # tried again: the failed run left no stamp


def test_a_full_disk_is_told_from_a_missing_network(machine):
    machine.python("echo 'OSError: [Errno 28] No space left on device'; exit 1")
    fails_with(machine.run(), "the disk is full")


def test_the_demo_leaves_an_interpreter_that_finds_the_package_and_lines_of_80_columns():
    """The commands that make would run show that the demo does all that `make build` does."""
    asked = [subprocess.run(["make", "--dry-run", "--no-print-directory", target], cwd=ROOT, text=True,
                            capture_output=True, check=True).stdout for target in ("build", "demo")]
    build, demo = asked
    assert demo.startswith(build)
    assert "slimpack_python" in build and "slimpack-build.pth" in build
    # From here on the demo shows its commands.
    shown = demo[demo.index("build/release/slimpack data inspect"):].splitlines()
    assert max(map(len, shown)) <= 80
