"""Checkpoints of a pipeline, by torch.distributed.checkpoint.

Every tensor is stored whole under its parameter's Hugging Face name, so a checkpoint loads on any
number of stages and replicas. A folder gets its name when all of it is on disk. Before it is used,
every file is compared with its size and checksum (checkpoint_files.py).
"""

import contextlib
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException

from slimpack import InvalidInput, _planner
from slimpack.balancing import require_positive
from slimpack.torch.pipeline.checkpoint_files import (
    damage_in,
    files_of,
    read_state,
    write_state,
)
from slimpack.torch.pipeline.failure import RunFailed, disk_failures
from slimpack.torch.pipeline.groups import lost
from slimpack.torch.pipeline.wide_adamw import WideAdamW


class Checkpoints:
    """The checkpoints in one folder, which all ranks see: FOLDER/step-00000100 after a hundred
    steps.

    keep_last: how many stay, 1 or more. Methods that take an engine are called by all ranks.
    """

    def __init__(self, folder, keep_last=2):
        require_positive("keep_last", keep_last)
        self.folder, self.keep_last = Path(folder), keep_last

    def steps(self):
        """The steps of all complete checkpoints, ascending."""
        return _planner.checkpoints_in(self.folder)

    def folder_of(self, step):
        return self.folder / _planner.checkpoint_name(step)

    def save(self, engine, optimizer, step, state):
        """Writes a checkpoint: weights, optimizer states, and `state`, JSON that is the same on all
        ranks.

        Returns when it is complete. The last of the older checkpoints stay; later ones are removed.
        A checkpoint of the same step is replaced.
        """
        partial = _planner.partial_folder(self.folder, step)
        with engine.watch:
            if engine.groups.rank == 0:
                self.folder.mkdir(parents=True, exist_ok=True)
                _planner.remove_partial_checkpoints(self.folder)
            engine.groups.gather_objects(None)
            with _one_line(f"save {self.folder_of(step)}"), lost("all ranks"):
                dcp.save(_tensors(engine.stage, optimizer), checkpoint_id=partial,
                         process_group=_group(engine))
            written = files_of(partial, engine.groups.rank, dist.get_world_size())
            files = sum(engine.groups.gather_objects(written), [])
            if engine.groups.rank == 0:
                write_state(partial, {"step": step, **state}, files)
                with disk_failures():
                    _planner.publish_checkpoint(self.folder, step)
                self.prune(step, self.keep_last)
            engine.groups.gather_objects(None)  # nobody goes on before the folder has its name

    def load(self, engine, optimizer, step):
        """Loads a checkpoint into the engine's stage and the optimizer. Returns its `state`.

        Settings of the optimizer, such as its learning rate, stay as they are. Raises InvalidInput
        where a file is not as it was written.
        """
        if damage := self._damage(engine, step):
            raise InvalidInput(damage)
        return self._load(engine, optimizer, step)

    def found(self, engine):
        """The steps() that the first rank finds."""
        with engine.watch:
            return engine.groups.hand_over(self.steps() if engine.groups.rank == 0 else None)

    def load_newest(self, engine, optimizer, tell):
        """Loads the newest checkpoint whose files are as they were written. Returns its step and
        its `state`, or None where there is no checkpoint.

        tell: called with a line on each that is passed over. Raises InvalidInput where that happens
        to all.
        """
        steps = self.found(engine)
        for step in reversed(steps):
            damage = self._damage(engine, step)
            if damage is None:
                state = self._load(engine, optimizer, step)
                if engine.has_finite_weights():
                    return step, state
                damage = "its weights are not finite numbers"
            tell(f"{self.folder_of(step)} is passed over: {damage}")
        if steps:
            raise InvalidInput(
                f"{self.folder} has no checkpoint that can be used; remove that folder to train "
                "from the beginning")
        return None

    def _damage(self, engine, step):
        """One line on a file that is not as it was written; None = there is none. Each rank reads a
        share of the files."""
        folder, groups = self.folder_of(step), engine.groups
        with engine.watch:
            try:
                files = read_state(folder)["files"]
                found = damage_in(folder, files[groups.rank::dist.get_world_size()])
            except InvalidInput as error:
                found = str(error)
            return next(filter(None, groups.gather_objects(found)), None)

    def _load(self, engine, optimizer, step):
        folder = self.folder_of(step)
        with engine.watch:
            state = read_state(folder)
            with _one_line(f"load {folder}"), lost("all ranks"):
                stored = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
                _require_same_weights(engine, folder, stored)
                states = _empty_states(engine.stage, optimizer, stored)
                tensors = {f"optimizer/{key}/{name}": value for name, of in states.items()
                           for key, value in of.items()}
                dcp.load({**_weights(engine.stage), **tensors}, checkpoint_id=folder,
                         process_group=_group(engine))
            for name, parameter in _trained(engine.stage, optimizer):
                if states[name]:
                    optimizer.state[parameter] = states[name]
        return state

    def prune(self, step, keep_last):
        """Leaves the newest of the checkpoints up to a step, and none of later steps. Called by one
        rank."""
        with disk_failures():
            _planner.prune_checkpoints(self.folder, step, keep_last)

    def set_aside(self, step):
        """Renames the checkpoint of a step, where there is one, so that no run goes on from it by
        itself. Returns its new path. Called by one rank."""
        with disk_failures():
            return _planner.set_aside_checkpoint(self.folder, step)


def _weights(stage):
    """By name the stage's stored parameters and, without an adapter, what buffers its family stores."""
    parameters = stage.stored_parameters()
    found = {name: p.detach() for name, p in parameters.items()}
    if stage.adapter is None:
        known = set(parameters.values())
        stored = stage.model.state_dict(keep_vars=True)
        found |= {name: tensor for name, tensor in stored.items() if tensor not in known}
    return found


def _require_same_weights(engine, folder, stored):
    """Raises InvalidInput, on all ranks alike, where a checkpoint has the weights of an adapter that
    the engine's model does not have, or the reverse."""
    mine = {name: tuple(tensor.shape) for name, tensor in _weights(engine.stage).items()}
    there = {name: tuple(tensor.size) for name, tensor in stored.items()
             if not name.startswith("optimizer/")}
    wanted = {name: shape for of_rank in engine.groups.gather_objects(mine)
              for name, shape in of_rank.items()}
    holds = any(".lora_" in name for name in there)
    trains = engine.stage.adapter is not None
    kinds = {True: "an adapter", False: "the weights of a whole model"}
    remedy = "go on with the model of that run, or train in another folder"
    if holds != trains:
        raise InvalidInput(f"{folder} holds {kinds[holds]}, this run trains {kinds[trains]}; {remedy}")
    for name in sorted(wanted.keys() | there.keys()) if trains else ():
        if wanted.get(name) != there.get(name):
            raise InvalidInput(f"the adapter in {folder} has {_shown(there.get(name))} for {name}, that "
                               f"of this run {_shown(wanted.get(name))}; {remedy}")


def _shown(shape):
    return "no weight" if shape is None else f"a weight of shape {list(shape)}"


def _trained(stage, optimizer):
    """(name, parameter) of the stage's parameters that the optimizer has."""
    mine = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    return [(name, p) for name, p in stage.model.named_parameters() if p in mine]


def _tensors(stage, optimizer):
    """The tensors that a rank stores. Ranks that have the same tensor store it once."""
    states = {f"optimizer/{key}/{name}": value for name, parameter in _trained(stage, optimizer)
              for key, value in optimizer.state.get(parameter, {}).items()}
    for name, value in states.items():
        if not isinstance(value, torch.Tensor):
            raise InvalidInput(
                f"{name} is of type {type(value).__name__}, only tensors can be stored; give an "
                "optimizer whose states are tensors")
    return {**_weights(stage), **states}


def _empty_states(stage, optimizer, stored):
    """By name of a parameter its optimizer's states as they are stored, still without values."""
    parameters = dict(_trained(stage, optimizer))
    place = optimizer.device_of_states if isinstance(optimizer, WideAdamW) else lambda p: p.device
    states = {name: {} for name in parameters}
    for full, tensor in stored.items():
        kind, *rest = full.split("/", 2)
        if kind == "optimizer" and rest[1] in states:
            key, name = rest
            of_parameter = tensor.size == parameters[name].shape
            like = parameters[name].detach() if of_parameter else torch.empty(tensor.size)
            states[name][key] = torch.zeros_like(like, dtype=tensor.properties.dtype,
                                                 device=place(parameters[name]))
    return states


def _group(engine):
    return engine.groups.by_name.get("all")


@contextlib.contextmanager
def _one_line(what):
    """Says what torch.distributed.checkpoint says on many lines in one."""
    try:
        yield
    except CheckpointException as error:
        rank, (cause, _) = min(error.failures.items())
        line = str(cause).strip().splitlines()[0]
        raise RunFailed(f"cannot {what}: rank {rank}: {line}") from error
