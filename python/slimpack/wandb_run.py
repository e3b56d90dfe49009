"""The metrics of a training run as a run of Weights & Biases (wandb)."""

import fcntl
import json
import os
import secrets
import sys

from slimpack import InvalidInput
from slimpack.following import scalars, written_at

STATE = "wandb-run.json"  # in the output folder
BEFORE_ALL = [-1, 0]
_ROOM = 200  # bytes of the state, so that a kill leaves the one before or the one after


class WandbRun:
    """Sends each step's figures once, as wandb's step of that number. The folder keeps the run's id and what
    was sent, so that later starts go on with the same run. What wandb has of a step stays, also where the
    step is trained again.

    settings: of the training run, which wandb shows as its config.
    """

    def __init__(self, folder, settings=None):
        try:
            import wandb
            wandb.init, wandb.Settings  # a folder of this name is no library
        except (ImportError, AttributeError) as error:
            raise InvalidInput(f"wandb is not installed ({error}); pip install wandb, or leave out its log") \
                from error
        self._wandb, self._folder, self._settings = wandb, folder, settings
        self._run = self._state = None
        self._id, self._sent = None, BEFORE_ALL  # the place of the last line that was sent
        self._next = 0  # the first step that wandb takes
        self._row, self._step, self._place = {}, None, None  # the row that is not complete yet

    def begin(self):
        """Begins the run, or goes on with it, and prints where it is to be seen. Waits for another process that
        sends the same run. When lines come anew, a row that has begun stays: its lines will come, too."""
        if self._run is not None:
            return
        self._read_state()
        names = {} if "WANDB_NAME" in os.environ else {"name": self._folder.resolve().name}
        if "WANDB_PROJECT" not in os.environ:
            names["project"] = "slimpack"
        try:
            self._run = self._wandb.init(
                id=self._id, resume="allow", dir=self._folder, config=self._settings, **names,
                allow_val_change=True, settings=self._wandb.Settings(silent=True, console="off"))
        except Exception as error:  # wandb's own kinds
            raise RuntimeError(str(error)) from error
        if not self._run.offline:
            self._take_from_server()
        self._next = self._sent[0] + 1
        where = (f"offline in {self._folder / 'wandb'}, which 'wandb sync' sends" if self._run.offline
                 else self._run.url)
        print(f"wandb: {where}", file=sys.stderr, flush=True)

    def write(self, lines):
        for line in lines:
            place = [line["step"], int("loss" not in line)]  # an evaluation comes after its step
            if place <= self._sent:
                continue
            # An evaluation that a stop put off comes with the step after it: wandb takes no step twice.
            step = max(line["step"], self._next)
            if self._row and step > self._step:
                self._send_row()
            self._row |= scalars(line)
            if (seconds := written_at(line)) is not None:
                self._row["_timestamp"] = seconds
            self._step, self._place = step, place

    def close(self, well=True):
        """Sends what is left. well: whether training has ended well."""
        if self._run is not None:
            if self._row:
                self._send_row()
            self._run.finish(exit_code=0 if well else 1)
        if self._state is not None:
            os.close(self._state)
            self._state = None

    def _send_row(self):
        self._run.log(self._row, step=self._step, commit=True)
        self._sent, self._next, self._row = self._place, self._step + 1, {}
        self._write_state()

    def _take_from_server(self):
        """The server knows better than the folder what it has: a kill may have lost rows on their way."""
        if not self._run.resumed:
            self._sent = BEFORE_ALL
        elif self._run.step - 1 != self._sent[0]:
            self._sent = [self._run.step - 1, 1]

    def _read_state(self):
        self._state = os.open(self._folder / STATE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._state, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("wandb: waiting for another process that sends this run", file=sys.stderr, flush=True)
            fcntl.flock(self._state, fcntl.LOCK_EX)
        except OSError:  # a file system without locks
            pass
        text = os.pread(self._state, _ROOM, 0)
        state = json.loads(text) if text else {}
        self._id = state.get("id") or os.environ.get("WANDB_RUN_ID") or secrets.token_hex(4)
        self._sent = state.get("sent", BEFORE_ALL)
        self._write_state()

    def _write_state(self):
        text = json.dumps({"id": self._id, "sent": self._sent})
        os.pwrite(self._state, text.ljust(_ROOM - 1).encode() + b"\n", 0)
