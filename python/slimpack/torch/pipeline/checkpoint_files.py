"""A checkpoint's training_state.json: the run's state, and size and checksum of every other file.
Checksums find damage, not forgery."""

import json
import os
import re

import numpy as np

from slimpack import InvalidInput, _planner

VERSION = 2
_NAME = "training_state.json"
_FORMAT = "slimpack-pipeline"
_OF_RANK = re.compile(r"__(\d+)_\d+\.distcp")  # as torch.distributed.checkpoint names them


def files_of(folder, rank, ranks):
    """The state's entries for the files that a rank has written; files of no rank count as rank
    0's."""
    names = (path.name for path in sorted(folder.iterdir()))
    return [_described(folder / name) for name in names if _writer_of(name, ranks) == rank]


def write_state(folder, content, files):
    """Completes a folder. content: a dict of JSON. files: files_of all ranks."""
    state = {"format": _FORMAT, "version": VERSION, **content, "files": files}
    state = json.loads(json.dumps(state))  # as it will be read: keys are texts
    state["checksum"] = _checksum_of(state)
    with (folder / _NAME).open("w", encoding="utf-8") as out:
        out.write(json.dumps(state, indent=2) + "\n")
        out.flush()
        os.fsync(out.fileno())


def read_state(folder):
    """The state that write_state has written. Raises InvalidInput where it is not there, or was
    changed."""
    file = folder / _NAME
    try:
        state = json.loads(file.read_text(encoding="utf-8"))
        kind, version = state.get("format"), state.get("version")
    except (OSError, ValueError, AttributeError) as error:
        raise InvalidInput(
            f"cannot read '{file}': {error}; use another checkpoint") from None
    if (kind, version) != (_FORMAT, VERSION):
        raise InvalidInput(
            f"'{file}' is {kind!r} version {version!r}, must be {_FORMAT!r} {VERSION}; take the "
            "slimpack that wrote it")
    if state.pop("checksum", None) != _checksum_of(state):
        raise InvalidInput(f"'{file}' was changed after it was written; use another checkpoint")
    return state


def damage_in(folder, files):
    """One line on the first file that is not as the state says; None = all are."""
    for written in files:
        file = folder / written["name"]
        try:
            found = _described(file)
        except OSError as error:
            return f"cannot read '{file}': {error.strerror}; use another checkpoint"
        for what, text in (("bytes", "'{}' has {} bytes, {} were written"),
                           ("checksum", "'{}' has checksum {}, {} was written")):
            if found[what] != written[what]:
                return text.format(file, found[what], written[what]) + "; use another checkpoint"
    return None


def _writer_of(name, ranks):
    found = _OF_RANK.fullmatch(name)
    rank = int(found[1]) if found else 0
    return rank if rank < ranks else 0


def _described(file):
    size = file.stat().st_size
    content = np.memmap(file, np.uint8, "r") if size else np.empty(0, np.uint8)
    return {"name": file.name, "bytes": size, "checksum": _planner.checksum(content)}


def _checksum_of(state):
    text = json.dumps(state, sort_keys=True)
    return _planner.checksum(np.frombuffer(text.encode(), np.uint8))
