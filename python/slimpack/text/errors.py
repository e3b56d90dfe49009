"""Errors that end a build."""

import contextlib
import errno
import json
import os

from slimpack._planner import InvalidInput

REMEDIES = {
    errno.ENOSPC: "free some space and run the same command again: it goes on where it stopped",
    errno.EDQUOT: "free some space and run the same command again: it goes on where it stopped",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f) and run the same command again",
}
FULL = (*REMEDIES, errno.EIO)  # why outputs end on good input


class BadInput(InvalidInput):
    """In one line: the value, the rule it breaks and the remedy."""


class Failed(RuntimeError):
    """In one line: why a build on good input ended."""


class BadDocument(BadInput):
    """An error in the contents of an input. The input must change, so that work done so far is of no
    use."""


def shown(path):
    """A path as messages have it: names may hold bytes that are no text."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def listed(names):
    """A few names for a message."""
    few = ", ".join(f"'{name}'" for name in list(names)[:8])
    return few + (", …" if len(names) > 8 else "") if few else "none"


def shortened(value, most=40):
    """A value of JSON for a message."""
    text = json.dumps(value)
    return text if len(text) <= most else text[:most] + "…"


def require_text(name, text, remedy="convert it", refusal=InvalidInput):
    """The text. Raises the refusal where it has a character that is none: half of a surrogate pair, which
    JSON can write and which also stands for a byte of an argument that is no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise refusal(f"{name} is no UTF-8 text (character {error.start} is {text[error.start]!a}); "
                      f"{remedy}") from None
    return text


def cannot_read(path, what, error, remedy="check the path"):
    if isinstance(error.filename, (str, bytes)):  # below a folder it is not the path that was given
        path = error.filename
    return BadInput(f"cannot read {what} '{shown(path)}': {error.strerror or error}; {remedy}")


@contextlib.contextmanager
def reading(path, what, remedy="check the path"):
    """Tells a failing read in one line."""
    try:
        yield
    except OSError as error:
        raise cannot_read(path, what, error, remedy) from error


@contextlib.contextmanager
def writing(path):
    """Tells a failing write in one line."""
    try:
        yield
    except OSError as error:
        kind = Failed if error.errno in REMEDIES else BadInput
        remedy = REMEDIES.get(error.errno, "give another --out")
        raise kind(f"cannot write '{shown(path)}': {error.strerror or error}; {remedy}") from error
