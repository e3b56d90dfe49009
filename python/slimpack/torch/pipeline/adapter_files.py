"""Writes an adapter from the shares of stages: a folder that PEFT reads. Merges it into the base model's
weights."""

import copy
import os
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from slimpack import InvalidInput
from slimpack.torch.pipeline.adapters import PREFIX

_WEIGHTS, _CONFIG = "adapter_model.safetensors", "adapter_config.json"


def require_no_adapter(folder):
    """Raises InvalidInput for a folder that holds an adapter, which from_pretrained would put into a
    model that lies beside it."""
    if (Path(folder) / _CONFIG).exists():
        raise InvalidInput(f"{folder} holds an adapter, which from_pretrained would put into a model "
                           "beside it; give another folder")


def write_share(stage, state, folder):
    """Writes a stage's share of the adapter into a file of its own. state: by name whole tensors, on
    the CPU. Returns (file name, None)."""
    from peft import get_peft_model_state_dict

    folder = Path(folder)
    if (folder / "config.json").exists():
        raise InvalidInput(f"{folder} holds a model, into which from_pretrained would put an adapter "
                           "beside it; give another folder")
    folder.mkdir(parents=True, exist_ok=True)
    share = get_peft_model_state_dict(stage.model, state, stage.adapter.name,
                                      save_embedding_layers=False)
    file = f".{_WEIGHTS}.{stage.place.index}"
    save_file({PREFIX + name: tensor.contiguous() for name, tensor in share.items()}, folder / file)
    return file, None


def join_shares(stage, folder, shares):
    """Makes one file of what write_share wrote, and PEFT's description of it. shares: what it
    returned, by stage."""
    folder, state = Path(folder), {}
    for file, _ in shares:
        state |= load_file(folder / file)
    partial = folder / f".{_WEIGHTS}.{os.getpid()}"
    save_file(state, partial, metadata={"format": "pt"})
    config = copy.deepcopy(stage.adapter.config)
    config.inference_mode = True  # as PEFT saves it; is_trainable=True trains on
    config.task_type = config.task_type or "CAUSAL_LM"
    config.base_model_name_or_path = (
        config.base_model_name_or_path or stage.model.name_or_path or None)
    config.save_pretrained(folder)
    partial.replace(folder / _WEIGHTS)
    for file, _ in shares:
        (folder / file).unlink()


def own_name(adapter, name):
    """The name that a weight has in the base model without its adapter; None for the adapter's own."""
    module, found, rest = name.partition(".base_layer.")
    if found and module in adapter.ranks:
        return f"{module}.{rest}"
    return None if adapter.owns(name) else name


def merged(stage, state):
    """By name in the base model its weights with the adapter in them. Those of the running model stay.

    state: by name the stage's whole tensors, on the CPU. PEFT merges them in fp32 or wider.
    """
    adapter = stage.adapter
    plain = {own_name(adapter, name): tensor for name, tensor in state.items()}
    plain.pop(None, None)
    there = dict(stage.model.named_modules())
    for name in (name for name in adapter.ranks if name in there):
        twin = _wide_copy(stage, there[name], name, state)
        twin.merge(safe_merge=True)
        for key, tensor in twin.get_base_layer().state_dict().items():
            plain[f"{name}.{key}"] = tensor.to(plain[f"{name}.{key}"].dtype)
    return plain


def _wide_copy(stage, module, name, state):
    """A copy of a module of PEFT, of whole weights on the CPU."""
    known = {id(stage.division.running): stage.division.running}
    for key, parameter in module.named_parameters():
        tensor = state[f"{name}.{key}"]
        wide = tensor if tensor.dtype == torch.float64 else tensor.float()
        known[id(parameter)] = nn.Parameter(wide.clone(), requires_grad=False)
    return copy.deepcopy(module, known)
