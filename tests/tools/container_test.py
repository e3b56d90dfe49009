"""The Containerfile's instructions name files, targets and systems that are there. No image is built."""

import fnmatch
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8")
# (instruction, what follows), without comments; a line that ends in \ goes on.
INSTRUCTIONS = [tuple(line.split(maxsplit=1)) for line in re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", TEXT, flags=re.M))
                .splitlines() if line.strip()]
IGNORED = [line for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
           if line and not line.startswith("#")]


def arguments_of(name):
    return [rest for instruction, rest in INSTRUCTIONS if instruction == name]


def copied():
    """The paths that COPY takes from the build context."""
    return [source for rest in arguments_of("COPY") for source in rest.split()[:-1]]


def commands():
    """The commands of RUN, one by one."""
    return [command.strip() for rest in arguments_of("RUN") for command in rest.split("&&")]


@pytest.mark.parametrize("path", copied())
def test_what_is_copied_is_there(path):
    assert (ROOT / path).exists()
    assert not any(fnmatch.fnmatch(path, pattern) for pattern in IGNORED)


def test_nothing_tracked_is_kept_out_of_the_image():
    """.dockerignore names what .gitignore names, and the repository itself."""
    untracked = {line.strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").split()}
    assert {pattern.removeprefix("**/") for pattern in IGNORED} <= untracked | {".git"}


def test_commands_are_the_projects_own():
    """One path: no list of packages beside that of tools/setup.sh."""
    targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    for command in commands():
        program, *words = command.split()
        if program == "make":
            assert words and set(words) <= set(targets), command
        elif program != "rm":
            assert (ROOT / program).is_file(), command


def test_setup_has_its_files_before_the_sources_are_copied():
    """Its layer is used again while the sources change."""
    before = TEXT[:TEXT.index("RUN tools/setup.sh")]
    read = set(re.findall(r"requirements\.txt|tools/\w+\.sh", (ROOT / "tools" / "setup.sh").read_text(encoding="utf-8")))
    for file in read:
        assert f"COPY {file.split('/')[0]} " in before, file


def test_base_images_are_systems_that_the_project_runs_on():
    systems = (ROOT / "docs" / "install.md").read_text(encoding="utf-8").lower().replace(" ", "")
    images = re.findall(r"BASE=(\S+)", TEXT)
    assert len(images) == 2
    for image in images:
        name = re.search(r"(debian|ubuntu):?([0-9.]+)$", image)
        assert name and "".join(name.groups()) in systems, image


def test_folders_on_the_path_are_those_of_the_build():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (path,) = [rest for rest in arguments_of("ENV") if rest.startswith("PATH=")]
    folder = arguments_of("WORKDIR")[0]
    for made in ("build/release", ".venv/bin"):
        assert f"{folder}/{made}:" in path and made.replace("release", "$(PRESET)") in makefile
