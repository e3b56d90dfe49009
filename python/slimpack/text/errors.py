"""What ends a build."""

import contextlib
import errno
import os

REMEDIES = {
    errno.ENOSPC: "free some space and run the same command again: it goes on where it stopped",
    errno.EDQUOT: "free some space and run the same command again: it goes on where it stopped",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f) and run the same command again",
}


class BadInput(Exception):
    """In one line: the value, the rule it breaks and the remedy."""


class Failed(Exception):
    """In one line: why a build on good input ended."""


class BadDocument(BadInput):
    """Of what an input holds. The input must change, so that work done so far is of no use."""


def shown(path):
    """A path as messages have it: names may hold bytes that are no text."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


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
