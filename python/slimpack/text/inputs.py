"""The files that documents come from: which, in which order and of which format."""

import errno
import fnmatch
import os
import stat
from dataclasses import dataclass

from slimpack.text.errors import BadInput, reading, shown

EXCLUDED_FOLDERS = (".*", "__pycache__", "site-packages")
ENDINGS = {".jsonl": "jsonl", ".jsonl.gz": "jsonl", ".parquet": "parquet"}
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
        """What must be the same when a build goes on."""
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


def format_of(path, wanted):
    if wanted != "auto":
        return wanted
    for ending, name in ENDINGS.items():
        if path.endswith(ending):
            return name
    if path.endswith(UNCLEAR_ENDINGS):
        raise BadInput(f"'{shown(path)}' does not tell by its name what it holds; give --format "
                       "jsonl (an object on each line) or --format text (one document)")
    if path.endswith(COMPRESSED_ENDINGS):
        raise BadInput(f"'{shown(path)}' is compressed by its name, and only JSON lines are read "
                       "compressed, by gzip; decompress it, or leave it out (--glob)")
    return "text"


def is_glob_match(name, pattern):
    """As in the shell: a leading dot is matched by a dot alone."""
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
    """The inputs in order, and the files that were left out because they are in `outputs`, which
    the build itself writes. What is in a folder of `outputs` is left out without a word."""
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
