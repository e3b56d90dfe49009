"""Text files that people name."""

from pathlib import Path

from slimpack import _planner


def read_text(file, what):
    """The text of a file. Raises InvalidInput that names `what` it should be."""
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _planner.InvalidInput(f"cannot read the {what} {file}: {error}") from None
