"""A dataset under way: the folder PREFIX.partial, from which a later start goes on.

    build.json      what is built from what; written once
    progress.json   how far it is; replaced about every two seconds
    tokens.bin      the tokens so far, and perhaps more than progress.json knows of
    lengths.bin     the documents' lengths, likewise
    mask.bin        of conversations: which of the tokens are targets, likewise
    tokenizer.json  a tokenizer that was trained for this dataset
    index.idx       at the end; mask.idx of the mask
    lock            held by the process that builds

1. Tokens, lengths and mask are appended.
2. They reach the disk.
3. progress.json is replaced and says how much there is.
4. At the end the index is written, and progress.json names the stage "naming".
5. The files get their names: a named chat template, the tokenizer, the mask, the .bin, the .idx.
A start after a kill in 1 to 3 cuts the files to what progress.json says. A start after a kill in 5
gives the remaining files their names."""

import contextlib
import fcntl
import json
import os
import time
from dataclasses import asdict, dataclass, field

import numpy as np

from slimpack.text.batches import Position
from slimpack.text.encoding import Findings
from slimpack.text.errors import BadInput, shown, writing
from slimpack.text.index import write_index
from slimpack.text.outputs import replace_with, write_json

FORMAT = "slimpack-partial-dataset"
VERSION = 2
NOTE_SECONDS = 2.0
FILES = ("build.json", "progress.json", "tokens.bin", "lengths.bin", "mask.bin", "tokenizer.json", "index.idx",
         "mask.idx")


@dataclass
class State:
    """How far a build is."""

    position: Position = field(default_factory=Position)
    stage: str = "encoding"  # then "naming"
    documents: int = 0
    tokens: int = 0
    targets: int = 0
    read: int = 0  # bytes of the inputs
    findings: Findings = field(default_factory=Findings)


def lock(folder):
    """A descriptor that holds the folder for this process."""
    with writing(folder):
        held = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(held)
        raise BadInput(f"another process is at work in '{shown(folder)}'; wait for it, or give "
                       "another --out") from error
    except OSError:
        pass  # a file system without locks
    return held


def difference(old, new):
    """In words, the first difference between two build.json; None when they are the same."""
    for name, value in new["options"].items():
        before = old["options"].get(name)
        if before != value:
            return f"{name} was {json.dumps(before)} and is {json.dumps(value)} now"
    if len(old["inputs"]) != len(new["inputs"]):
        return f"{len(old['inputs']):,} inputs were given, now there are {len(new['inputs']):,}"
    for before, now in zip(old["inputs"], new["inputs"]):
        if before[0] != now[0]:
            return f"input '{shown(before[0])}' was given, in its place is '{shown(now[0])}' now"
        if before != now:
            return f"input '{shown(now[0])}' has changed (size or time of modification)"
    return None


class Partial:
    """The build in the folder; begins one where there is none.

    has_mask: whether it has a mask. chat_template: a text that the dataset keeps beside it; None = none.
    """

    def __init__(self, outputs, inputs, options, restart, has_mask=False, chat_template=None):
        self.outputs, self.has_mask, self.chat_template = outputs, has_mask, chat_template
        self.folder = outputs.partial
        with writing(outputs.prefix):
            self.folder.mkdir(parents=True, exist_ok=True)
        self.state = State()
        self.files = {}  # name → descriptor
        self.noted = 0.0  # when; the first batch is noted at once
        self.lock = lock(self.folder)
        try:
            self.check_outputs()
            self.begin({"format": FORMAT, "version": VERSION, "options": options,
                        "inputs": [source.identity() for source in inputs]}, restart)
        except BaseException:
            self.close()
            raise

    def begin(self, build, restart):
        """Takes up what is there, or begins anew."""
        if restart:
            self.clear()
        if (self.folder / "build.json").exists():
            self.require_same(build)
            self.read_state()
        else:
            self.require_empty()
            write_json(self.folder / "build.json", build)

    def check_outputs(self):
        """Fails at once where writing would fail at the end."""
        for file in (self.outputs.chat_template, *self.outputs.of_build(self.has_mask).values()):
            if file.is_dir():
                raise BadInput(f"cannot write '{shown(file)}': it is a folder; give another --out")
            with writing(file):
                file.parent.mkdir(parents=True, exist_ok=True)
            if file.parent.stat().st_dev != self.folder.stat().st_dev:
                raise BadInput(f"'{shown(file)}' is on another disk than '{shown(self.folder)}', "
                               "and files get their names on one disk; give --out there")

    def require_empty(self):
        ours = ("lock", "build.json.tmp")
        strangers = [p.name for p in self.folder.iterdir() if p.name not in ours]
        if strangers:
            raise BadInput(f"'{shown(self.folder)}' holds '{shown(strangers[0])}' and no "
                           "build.json, so it is no build that was begun; move it away, or give "
                           "another --out")

    def require_same(self, build):
        file = self.folder / "build.json"
        try:
            old = json.loads(file.read_bytes())
            if (old["format"], old["version"]) != (FORMAT, VERSION):
                raise ValueError("of another version")
            change = difference(old, build)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadInput(f"'{shown(file)}' is damaged ({error}); start again with --restart") \
                from error
        if change:
            raise BadInput(f"'{shown(self.folder)}' holds a build that was begun differently: "
                           f"{change}; give the same to go on, or --restart to begin anew")

    def read_state(self):
        file = self.folder / "progress.json"
        if not file.exists():
            return
        try:
            noted = json.loads(file.read_bytes())
            self.state = State(**{**noted, "position": Position(**noted["position"]),
                                  "findings": Findings(**noted["findings"])})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadInput(f"'{shown(file)}' is damaged ({error}); start again with --restart") \
                from error

    def trained_tokenizer(self):
        """The tokenizer trained before, if it was."""
        file = self.folder / "tokenizer.json"
        if self.state.stage == "naming" and not file.exists():
            file = self.outputs.tokenizer  # it has its name already
        return file.read_text() if file.exists() else None

    def keep_tokenizer(self, text):
        replace_with(self.folder / "tokenizer.json", text.encode())

    def open(self, stored_type):
        """Ready to append."""
        self.stored_type = stored_type
        if self.state.stage == "naming":
            return
        sizes = {"tokens.bin": self.state.tokens * stored_type.itemsize,
                 "lengths.bin": self.state.documents * 4}
        if self.has_mask:
            sizes["mask.bin"] = self.state.tokens
        for name, size in sizes.items():
            file = self.folder / name
            with writing(file):
                self.files[name] = descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
                there = os.fstat(descriptor).st_size
                if there < size:
                    raise BadInput(f"'{shown(file)}' has {there:,} bytes, progress.json says "
                                   f"{size:,}; start again with --restart")
                os.ftruncate(descriptor, size)

    def append(self, batch):
        parts = {"tokens.bin": batch.tokens, "lengths.bin": batch.lengths, "mask.bin": batch.mask}
        for name, descriptor in self.files.items():
            with writing(self.folder / name):
                rest = memoryview(parts[name])
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
        state = self.state
        state.position = batch.end
        state.documents += batch.documents
        state.tokens += len(batch.tokens) // self.stored_type.itemsize
        state.targets += batch.targets
        state.findings.add(batch.findings)
        if time.monotonic() - self.noted >= NOTE_SECONDS:
            self.note()

    def note(self):
        """Makes all that has been appended so far survive from now on."""
        with writing(self.folder):
            for descriptor in self.files.values():
                os.fsync(descriptor)
        write_json(self.folder / "progress.json", asdict(self.state))
        self.noted = time.monotonic()

    def finish(self):
        """Gives the files their names. Continues where an earlier finish() was killed."""
        if self.state.stage == "encoding":
            self.write_index("index.idx", self.stored_type)
            if self.has_mask:
                self.write_index("mask.idx", np.dtype("u1"))
            self.state.stage = "naming"
            self.note()
        if self.chat_template is not None:
            replace_with(self.outputs.chat_template, self.chat_template.encode())
        with writing(self.outputs.prefix):
            if self.chat_template is None:  # one beside it is that of an earlier dataset
                self.outputs.chat_template.unlink(missing_ok=True)
            for name, file in self.outputs.of_build(self.has_mask).items():
                if (self.folder / name).exists():
                    os.replace(self.folder / name, file)
        self.discard()

    def write_index(self, name, stored_type):
        file = self.folder / name
        lengths = self.folder / "lengths.bin"
        with writing(file), open(file, "wb") as out:
            write_index(out, stored_type, np.memmap(lengths, "<i4", "r"))
            out.flush()
            os.fsync(out.fileno())

    def clear(self):
        """Removes what a build has left, and nothing else. build.json goes last, so that a kill in
        between leaves a folder that --restart still knows."""
        with writing(self.folder):
            for name in reversed(FILES):
                for file in (self.folder / name, self.folder / (name + ".tmp")):
                    file.unlink(missing_ok=True)

    def discard(self):
        self.clear()
        with writing(self.folder):
            (self.folder / "lock").unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # a file of somebody else stays, and so does the folder
            self.folder.rmdir()
        self.close()

    def close(self):
        for descriptor in (*self.files.values(), *([self.lock] if self.lock is not None else [])):
            os.close(descriptor)
        self.files, self.lock = {}, None
