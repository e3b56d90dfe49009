"""How arguments of the Python API become settings of a run configuration."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from slimpack import _planner

PACKAGE = Path(__file__).parent
PLAN_KEYS = ["planner", "granularity", "memory_cap", "most_merged", "recompute", "backward", "cuts", "solver",
             "time_budget"]


def toml_value(value):
    """A number, text, path, truth value, or list of them, in TOML."""
    return json.dumps(os.fspath(value) if isinstance(value, os.PathLike) else value)


def setting(name, value):
    return f"{name}={toml_value(value)}"


def shipped(folder, ending):
    """Names of the models or machines that come with the package, and their files."""
    return {file.name.removesuffix(ending): file for file in sorted((PACKAGE / folder).glob(f"*{ending}"))}


def found(what, name, folder, ending):
    """The file that a path or a shipped name stands for."""
    path = Path(name)
    if path.is_dir() and ending == ".json":
        path = path / "config.json"
    if path.exists():
        return path
    files = shipped(folder, ending)
    if str(name) in files:
        return files[str(name)]
    raise _planner.InvalidInput(
        f"{what} {str(name)!r} is no file and no name of one that comes with slimpack; give a path or one "
        f"of {', '.join(files)}")


def model_settings(model):
    """(settings, config.json's text or None) of a path, a name, a dict, or a transformers config."""
    if model is None:
        return [], None
    if isinstance(model, str | os.PathLike):
        return [setting("model.config", found("model", model, "models", ".json"))], None
    if hasattr(model, "to_json_string"):  # transformers, which knows how to write infinite numbers
        return [setting("model.config", "model")], model.to_json_string(use_diff=False)
    if not isinstance(model, Mapping):
        raise _planner.InvalidInput(
            f"model is of type {type(model).__name__}, must be a path, a name, a dict or a transformers "
            "config")
    return [setting("model.config", "model")], json.dumps(model, default=str)


def hardware_settings(hardware):
    if hardware is None:
        return []
    if isinstance(hardware, Mapping):
        return [setting(f"hardware.{key}", value) for key, value in hardware.items()]
    return [setting("hardware.file", found("hardware", hardware, "hardware", ".toml"))]


def parallel_settings(parallel):
    if parallel is None:
        return []
    if not isinstance(parallel, Mapping):
        raise _planner.InvalidInput(
            f"parallel is of type {type(parallel).__name__}, must be a dict such as "
            "{'pp': 4, 'dp': 8, 'tp': 1}")
    return [setting(f"parallel.{key}", value) for key, value in parallel.items()]


def plan_settings(options):
    """Settings from keyword arguments that are keys of [plan]."""
    unknown = [name for name in options if name not in PLAN_KEYS]
    if unknown:
        raise TypeError(f"unknown argument {unknown[0]!r}; the planner takes {', '.join(PLAN_KEYS)}")
    return [setting(f"plan.{name}", value) for name, value in options.items() if value is not None]
