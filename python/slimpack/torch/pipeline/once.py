"""Checks a family when it is met for the first time, and remembers on disk that it was exact."""

import contextlib
import hashlib
import inspect
import json
import os
import sys
from pathlib import Path
from types import ModuleType

import torch
import transformers
from transformers import PreTrainedModel

from slimpack import InvalidInput
from slimpack.torch.pipeline.adapters import require_peft
from slimpack.torch.pipeline.checking import tried
from slimpack.torch.pipeline.family import family_of

# Packages whose versions stand for their code, or whose files are all hashed.
_KNOWN_OTHERWISE = {"torch", "transformers", "slimpack"}
_INSTALLED = {"site-packages", "dist-packages"}  # folders


def require_exact(model, adapter=None):
    """Raises InvalidInput where `check` refuses a model or finds it not exact.

    model: what `check` takes. adapter: the whole model's Adapter, or None. A model that was exact once is not tried again with the same
    configuration, code and libraries.
    """
    known = _folder() / _digest(model, adapter)
    if known.exists():
        return
    report = tried(model, adapter)
    if not report.exact:
        reason = f" ({report.reason})" if report.reason else ""
        raise InvalidInput(
            f"{report.model} is not exact in slices: the gradient of {report.parameter} differs by "
            f"{report.gradient_error:.0e} of its largest entry{reason}; train it without a pipeline, or "
            "give check=False")
    with contextlib.suppress(OSError):  # a home that cannot be written: the next time checks again
        known.parent.mkdir(parents=True, exist_ok=True)
        unfinished = known.with_name(f"{known.name}.{os.getpid()}")
        unfinished.write_text(f"{report}\n")
        unfinished.replace(known)


def _folder():
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "slimpack" / "exact"


def _digest(model, adapter=None):
    """A digest of all that decides whether a model is exact."""
    known = isinstance(model, PreTrainedModel)
    family, config = (type(model), model.config) if known else family_of(model)
    digest = hashlib.blake2b(digest_size=16)
    settings = json.dumps(config.to_dict(), sort_keys=True, default=str)
    for text in (family.__qualname__, settings, torch.__version__, transformers.__version__,
                 *(() if adapter is None else _texts_of(adapter))):
        digest.update(text.encode() + b"\0")
    for file in [*_files_of(family), *sorted(Path(__file__).parent.glob("*.py"))]:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _texts_of(adapter):
    """Returns what decides how an adapter computes."""
    ranks = json.dumps(adapter.ranks, sort_keys=True)
    settings = {name: sorted(map(str, value)) if isinstance(value, set) else value
                for name, value in adapter.config.to_dict().items()}
    return require_peft().__version__, ranks, json.dumps(settings, sort_keys=True, default=str)


def _files_of(family):
    """Source files of a class and, over any number of imports, of the modules whose names its own
    module uses, sorted; without installed packages that the class is not part of."""
    files, seen, todo = set(), set(), [family.__module__]
    while todo:
        name = todo.pop()
        file = getattr(sys.modules.get(name), "__file__", None)
        if name in seen or file is None or not _may_change(name, file, family):
            continue
        seen.add(name)
        files.add(Path(file))
        for value in list(vars(sys.modules[name]).values()):
            is_module = isinstance(value, ModuleType)
            imported = value.__name__ if is_module else getattr(value, "__module__", None)
            if isinstance(imported, str):
                todo.append(imported)
    return sorted(files | {Path(inspect.getfile(family))})


def _may_change(name, file, family):
    """Whether a module's code may change while versions stay."""
    package, own = (text.partition(".")[0] for text in (name, family.__module__))
    if package in _KNOWN_OTHERWISE or package in sys.stdlib_module_names:
        return False
    return package == own or _INSTALLED.isdisjoint(Path(file).parts)
