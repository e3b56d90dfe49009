"""A stand-in for the library of Weights & Biases (wandb 0.31): the calls that slimpack.wandb_run makes, with the
signatures of the library, and a server that is a folder.

Environment: STAND_IN_SERVER: the folder. STAND_IN_TROUBLE: "login", "log", "die" or "hang": what goes wrong.
WANDB_MODE=offline: nothing is known of earlier runs, as in the library.
"""

import json
import os
import time
from pathlib import Path

TROUBLE = os.environ.get("STAND_IN_TROUBLE")


class Error(Exception):
    pass


class Settings:
    def __init__(self, *, silent=False, console="auto"):
        self.silent, self.console = silent, console


def init(entity=None, project=None, dir=None, id=None, name=None, notes=None, tags=None, config=None,
         config_exclude_keys=None, config_include_keys=None, allow_val_change=None, group=None, job_type=None,
         mode=None, force=None, reinit=None, resume=None, resume_from=None, fork_from=None, save_code=None,
         tensorboard=None, sync_tensorboard=None, monitor_gym=None, settings=None, anonymous=None):
    assert isinstance(settings, Settings) and os.path.isdir(dir) and resume == "allow"
    if TROUBLE == "login":
        raise Error("No API key configured. Use `wandb login` to log in.")
    return Run(id, project, name, config)


class Run:
    def __init__(self, id, project, name, config):
        self.id, self.offline = id, os.environ.get("WANDB_MODE") == "offline"
        self._file = Path(os.environ["STAND_IN_SERVER"]) / f"{id}.jsonl"
        before = rows(self._file.parent, id) if self._file.exists() and not self.offline else []
        self.resumed, self.step = bool(before), before[-1][0] + 1 if before else 0
        self.url = f"https://stand.in/{project}/runs/{id}"
        self._record(start={"project": project, "name": name, "config": config})

    def log(self, data, step=None, commit=None):
        assert commit is True and all(isinstance(value, (int, float)) for value in data.values())
        if TROUBLE in ("log", "die") and step == 2:
            if TROUBLE == "die":
                os._exit(9)
            raise Error("the disk is full")
        if step < self.step:
            self._record(dropped=[step, data])  # as the library does, with a warning
            return
        self._record(row=[step, data])
        self.step = step + 1

    def finish(self, exit_code=None):
        if TROUBLE == "hang":
            time.sleep(3600)
        self._record(finished=exit_code)

    def _record(self, **what):
        with self._file.open("a") as file:
            file.write(json.dumps(what) + "\n")


def records(server, id):
    return [json.loads(line) for line in (Path(server) / f"{id}.jsonl").read_text().splitlines()]


def rows(server, id):
    return [record["row"] for record in records(server, id) if "row" in record]
