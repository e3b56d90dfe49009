"""The files that documents come from: which, in which order and of which format."""

import errno
import fnmatch
import json
import os
import stat
from dataclasses import dataclass

from slimpack.text.errors import BadInput, reading, shown

BOM = b"\xef\xbb\xbf"  # the mark that some programs put before UTF-8; no part of the text
GZIP = b"\x1f\x8b"  # how such files begin

EXCLUDED_FOLDERS = (".*", "__pycache__", "site-packages")
LINES = (".jsonl", ".ndjson", ".jsonlines")  # a document on each line
ENDINGS = {**dict.fromkeys(LINES, "jsonl"), **dict.fromkeys((f"{ending}.gz" for ending in LINES), "jsonl"),
           ".parquet": "parquet"}
# Such a file may hold one document, a list of them or one on each line.
UNCLEAR_ENDINGS = (".json", ".json.gz")
COMPRESSED_ENDINGS = (".gz", ".zst", ".xz", ".bz2", ".zip")


@dataclass(frozen=True)
class Input:
    """A file as it was when the build began."""

    path: str
    format: str  # text, jsonl or parquet
    size: int
    modified_ns: int

    def identity(self):
        """The values that must be the same when a build goes on."""
        return [os.path.abspath(self.path), self.size, self.modified_ns]

    def open(self):
        """The file, if it is still the same."""
        with reading(self.path, "input", "bring the file back and run the same command again"):
            file = open(self.path, "rb")
        now = os.fstat(file.fileno())
        if (now.st_size, now.st_mtime_ns) != (self.size, self.modified_ns):
            file.close()
            raise BadInput(f"input '{shown(self.path)}' has changed since the build began; start "
                           "again with --restart")
        return file


FIRST_LINES = 1 << 22  # bytes in which two lines are looked for


def is_compressed(path):
    """By its name."""
    return path.lower().endswith(".gz")


def ending_format(path):
    """The format that the ending of a name says, in capitals or not; None where it says nothing."""
    return next((name for ending, name in ENDINGS.items() if path.lower().endswith(ending)), None)


def format_of(path, wanted):
    if wanted != "auto":
        return wanted
    if (name := ending_format(path)) is not None:
        return name
    path_lower = path.lower()
    if path_lower.endswith(UNCLEAR_ENDINGS):
        raise BadInput(f"'{shown(path)}' does not tell by its name what it holds; give --format "
                       "jsonl (an object on each line; jq -c '.[]' makes such lines of a list) or --format text (one "
                       "document)")
    if path_lower.endswith(COMPRESSED_ENDINGS):
        raise BadInput(f"'{shown(path)}' is compressed by its name, and only JSON lines are read "
                       "compressed, by gzip; decompress it, or leave it out (--glob)")
    if holds_json_lines(path):
        raise BadInput(f"'{shown(path)}' holds JSON lines, though its name does not say so; give --format "
                       "jsonl (an object on each line) or --format text (one document)")
    return "text"


def holds_json_lines(path):
    """Whether the first two lines of a file are JSON objects, so that it is hardly one text."""
    with open(path, "rb") as file:
        if not file.peek(256)[:256].removeprefix(BOM).lstrip().startswith(b"{"):
            return False
        lines = [line for line in file.read(FIRST_LINES).removeprefix(BOM).split(b"\n") if line.strip()]
    return len(lines) >= 2 and all(map(is_object, lines[:2]))


def is_object(line):
    if not line.lstrip().startswith(b"{"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def is_glob_match(name, pattern):
    """Whether the name matches, by the shell's rules: a leading dot is matched by a dot alone."""
    return ((not name.startswith(".") or pattern.startswith("."))
            and fnmatch.fnmatchcase(name, pattern))


def files_below(folder, glob, excluded):
    """All matching regular files, by path, bytewise. Links to folders are not followed."""
    def refuse(error):
        raise error

    found = []
    for parent, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [f for f in folders
                      if not any(fnmatch.fnmatchcase(f, pattern) for pattern in excluded)]
        for name in names:
            path = os.path.join(parent, name)
            if is_glob_match(name, glob) and stat.S_ISREG(os.stat(path).st_mode):
                found.append(path)
    return sorted(found, key=os.fsencode)


def expand(path, glob, excluded):
    """The files that an argument of --from stands for."""
    status = os.stat(path)
    if stat.S_ISREG(status.st_mode):
        return [path]
    if not stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EINVAL, "neither a file nor a folder")
    files = files_below(path, glob, excluded)
    if not files:
        raise BadInput(f"no file below '{shown(path)}' matches '{glob}'; try another pattern, or "
                       "'*' for all files")
    return files


def find_inputs(paths, glob, excluded, wanted_format, outputs):
    """The inputs in order, and the files that were left out because they are in `outputs`, which the build
    itself writes. Files in a folder of `outputs` are left out without a word."""
    own = [os.path.realpath(output) for output in outputs]
    inputs, left_out = [], []
    for given in paths:
        with reading(given, "input"):
            for path in expand(given, glob, excluded):
                real = os.path.realpath(path)
                if real in own:
                    left_out.append(path)
                    continue
                if any(real.startswith(output + os.sep) for output in own):
                    continue
                status = os.stat(path)
                inputs.append(Input(path, format_of(path, wanted_format), status.st_size,
                                    status.st_mtime_ns))
    if not inputs:
        raise BadInput("all files of --from belong to the dataset that is written; name the files "
                       "that hold the text")
    return inputs, left_out
