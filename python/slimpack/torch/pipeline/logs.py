"""Other programs that show a run's metrics while it goes on: slimpack.log, as `slimpack train --log`
starts it."""

import contextlib
import json
import math

from slimpack import InvalidInput, _planner
from slimpack.log import NAMES
from slimpack.runtime import log_command


def log_names(log):
    """The names in a Trainer's `log`."""
    names = [name.strip() for name in (log.split(",") if isinstance(log, str) else log) if name]
    for name in names:
        if name not in NAMES:
            raise InvalidInput(f"log has '{name}', which is none of {', '.join(NAMES)}")
    return names


@contextlib.contextmanager
def logging_to(names, engine, folder, settings, tell):
    """Sends the metrics in `folder` on until the context ends. Called by all ranks.

    settings: tables of the run's settings, by name. tell: called with a line of what went wrong.
    Raises InvalidInput on the first rank where a library is missing; nothing else ends a run.
    """
    log = None
    with engine.watch:
        if names and engine.groups.rank == 0:
            log = _planner.LogProcess(log_command(), names, folder, toml_of(settings))
        engine.groups.hand_over(None)  # nobody goes on without it
    well = False
    try:
        yield
        well = True
    finally:
        if log is not None and (wrong := log.finish(well)):
            tell(f"warning: {wrong}; python -m slimpack.log {folder} --to {','.join(names)} sends the rest")


def settings_of(steps, optimizer, engine, max_norm):
    """The settings that a log shows, in tables by name."""
    group = dict(optimizer.param_groups[0])
    group["lr"] = group.pop("initial_lr", group["lr"])  # which a scheduler keeps
    return {"data": scalars_of(steps.sampler.state_dict()),
            "parallel": {"pp": engine.stage.place.stages, "dp": engine.groups.replicas},
            "optimizer": {"name": type(optimizer).__name__, **scalars_of(group), "max_norm": max_norm}}


def scalars_of(values):
    return {name: value for name, value in values.items()
            if isinstance(value, (bool, int, str)) or isinstance(value, float) and math.isfinite(value)}


def toml_of(tables):
    """TOML of tables of scalars, whose JSON is TOML."""
    return "".join(f"[{table}]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
                   for table, values in tables.items())
