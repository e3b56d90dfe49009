"""Writes a model from its stages: a folder that from_pretrained reads."""

import json
import os
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch.distributed.tensor import DTensor
from transformers.core_model_loading import revert_weight_conversion

from slimpack import InvalidInput
from slimpack.torch.pipeline.adapter_files import merged, own_name, require_no_adapter, write_share

_INDEX = "model.safetensors.index.json"


def write_shard(stage, folder, *, write=True):
    """Writes one stage's weights, named as in the family's checkpoints, with its adapter merged into
    them. A tied weight is in the first stage's shard alone, and so is what a model has beside its language
    model, as it was. Returns (file name, {weight: bytes}).

    Replicas that share weights out all call this, to hand over theirs; those without `write` write
    nothing and get None.

    Raises InvalidInput where from_pretrained would not find a weight by its name.
    """
    _require_own_names(stage)
    require_no_adapter(folder)
    state = _whole_state(stage, stage.model.state_dict(keep_vars=True), keep=write)
    if not write:
        return None
    if stage.adapter is not None:
        state = merged(stage, state)
    if stage.place.is_first:
        state |= stage.division.rest.state()
    folder, place = Path(folder), stage.place
    folder.mkdir(parents=True, exist_ok=True)
    state = revert_weight_conversion(stage.model, state)
    file = f"model-{place.index + 1:05d}-of-{place.stages:05d}.safetensors"
    partial = folder / f".{file}.{os.getpid()}"
    save_file({name: tensor.contiguous() for name, tensor in state.items()}, partial,
              metadata={"format": "pt"})
    partial.replace(folder / file)
    return file, {name: tensor.nbytes for name, tensor in state.items()}


def write_adapter_shard(stage, folder, *, write=True):
    """Writes one stage's share of the adapter alone, as write_shard writes weights. Returns what
    join_shares takes."""
    state = _whole_state(stage, stage.adapter.parameters(stage.model), keep=write)
    return write_share(stage, state, folder) if write else None


def _require_own_names(stage):
    """Other libraries' adapters rename the weights that they wrap. from_pretrained would draw those
    anew, with a warning alone."""
    model = stage.model
    with torch.device("meta"):
        known = type(model)(model.config).state_dict().keys()
    names = list(model.state_dict())
    if stage.adapter is not None:
        names = [own for own in (own_name(stage.adapter, name) for name in names) if own is not None]
    others = [name for name in names if name not in known]
    if others:
        raise InvalidInput(
            f"{type(model).__name__} has no weight {others[0]} and {len(others) - 1} others of this "
            "stage, from_pretrained would not load them; save adapters with their own library, or "
            "merge them into the model first")


def _whole_state(stage, tensors, keep):
    """By name these tensors of a stage, on the CPU; nothing without `keep`."""
    state, seen = {}, set() if stage.place.is_first else set(stage.tied_parameters())
    for name, tensor in tensors.items():
        if tensor in seen:
            continue
        seen.add(tensor)
        tensor = tensor.detach()
        whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        if keep:
            state[name] = whole.contiguous().cpu()
    return state


def write_index(stage, folder, shards):
    """Writes what from_pretrained needs beside the shards, when all of them are there. shards: what
    write_shard returned, by stage. Other files in the folder, such as a tokenizer, stay."""
    folder, config = Path(folder), stage.model.config
    config.dtype = str(stage.dtype).removeprefix("torch.")
    config.architectures = [type(stage.model).__name__]
    config.save_pretrained(folder)
    if stage.model.can_generate():
        stage.model.generation_config.save_pretrained(folder)
    for stale in folder.glob("model*.safetensors"):
        if stale.name not in {file for file, _ in shards}:
            stale.unlink()
    index = {"metadata": {"total_size": sum(sum(sizes.values()) for _, sizes in shards)},
             "weight_map": {name: file for file, sizes in shards for name in sizes}}
    partial = folder / f".{_INDEX}.{os.getpid()}"
    partial.write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
    partial.replace(folder / _INDEX)
