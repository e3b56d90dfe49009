"""The backend that pip builds slimpack-packflow with: scikit-build-core, and the torch that `make setup`
put into .venv.

pip builds in an environment of its own. Unpacking torch there takes minutes, for every build. So torch is
asked for only where .venv has not the pinned one. Without build isolation, the torch that is installed
is taken.
"""

import importlib.util
import re
from pathlib import Path

from scikit_build_core import build
from scikit_build_core.build import (  # noqa: F401  # pip calls them
    build_editable,
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_wheel,
)

ROOT = Path(__file__).resolve().parents[1]


def pinned_torch():
    """The line of requirements.txt, such as "torch==2.13.0"."""
    return re.search(r"^torch==\S+", (ROOT / "requirements.txt").read_text(), re.M).group()


def prepared_torch():
    """The folder of the pinned torch in .venv, or None."""
    version = re.escape(pinned_torch().removeprefix("torch=="))
    for file in ROOT.glob(".venv/lib/python3*/site-packages/torch/version.py"):
        if re.search(rf"^__version__ = '{version}(\+.*)?'$", file.read_text(), re.M):
            return file.parent
    return None


def get_requires_for_build_wheel(config_settings=None):
    needed = build.get_requires_for_build_wheel(config_settings)
    return needed if prepared_torch() else [*needed, pinned_torch()]


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    if importlib.util.find_spec("torch") is None:
        config_settings = {**(config_settings or {}), "cmake.define.TORCH_DIR": str(prepared_torch())}
    return build.build_wheel(wheel_directory, config_settings, metadata_directory)
