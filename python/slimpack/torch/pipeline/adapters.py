"""Adapters of PEFT in a model: LoRA of linear modules inside decoder layers. They train; the model's own
weights stay.

A stage keeps those of its layers. PEFT's own code makes them, computes with them and names them.
"""

import contextlib
import copy
import dataclasses
import hashlib
import importlib
import os
import re
import sys

import torch
from transformers import PreTrainedModel

from slimpack import InvalidInput
from slimpack.torch.pipeline.adapter_rules import require_plain_lora, require_trainable_modules
from slimpack.torch.pipeline.family import family_of
from slimpack.torch.pipeline.refusals import require_trainable

NAME = "default"  # PEFT's own name of an adapter
PREFIX = "base_model.model."  # before names of weights in PEFT's files
_MOST_RANK = 16  # of adapters in a small model


@dataclasses.dataclass(frozen=True)
class Adapter:
    """The adapter of a whole model.

    name: by which PEFT's modules know it. config: its LoraConfig. ranks: by name of each module that
    has it.
    """

    name: str
    config: object
    ranks: dict[str, int]

    def owns(self, parameter_name):
        """Whether a parameter of the model is one of the adapter's."""
        module, found, _ = parameter_name.partition(".lora_")
        return bool(found) and module in self.ranks

    def parameters(self, model):
        """By name those of a model or of a stage's share of it."""
        return {name: p for name, p in model.named_parameters() if self.owns(name)}

    @contextlib.contextmanager
    def disabled(self, model):
        """Within it a model, or a stage's share of one, computes as if it had no adapter."""
        modules = [module for name, module in model.named_modules() if name in self.ranks]
        for module in modules:
            module.enable_adapters(False)
        try:
            yield
        finally:
            for module in modules:
                module.enable_adapters(True)  # which lets the adapter train again, too

    def __str__(self):
        ranks = sorted(set(self.ranks.values()))
        parts = sorted({_in_layer(name).rpartition(".")[2] for name in self.ranks})
        kind = "DoRA" if self.config.use_dora else "LoRA"
        return f"{kind} of rank {', '.join(map(str, ranks))} in {', '.join(parts)}"


def require_peft():
    """The package peft."""
    try:
        return importlib.import_module("peft")
    except ImportError:
        raise InvalidInput("adapters are PEFT's, which is not installed; pip install peft") from None


def base_of(model):
    """The transformers model inside a PeftModel, in which adapters are; any other model itself.

    Raises InvalidInput for adapters that are not in its modules.
    """
    peft = sys.modules.get("peft")
    if peft is None or not isinstance(model, (peft.PeftModel, peft.PeftMixedModel)):
        return model
    for config in model.peft_config.values():
        require_plain_lora(config)
    return model.get_base_model() if isinstance(model, peft.PeftModel) else model.base_model.model


def adapter_of(model):
    """The Adapter of a whole transformers model, also of one on the meta device; None = it has none.

    Raises InvalidInput for adapters that slices, stages or checkpoints cannot hold.
    """
    if "peft" not in sys.modules:
        return None
    from peft.tuners.tuners_utils import BaseTunerLayer

    found = {name: m for name, m in model.named_modules() if isinstance(m, BaseTunerLayer)}
    configs = getattr(model, "peft_config", {})
    if not found and not configs:
        return None
    if len(configs) != 1:
        raise InvalidInput(
            f"the model has {len(configs)} adapters ({', '.join(configs)}), one of them can train; "
            "merge or delete the others")
    (name, config), = configs.items()
    require_plain_lora(config)
    require_trainable_modules(model, found, name)
    return Adapter(name, config, {key: module.r[name] for key, module in found.items()})


class NewAdapter:
    """An adapter that a model on disk gets when a stage of it is loaded.

    of: the whole model's Adapter.
    """

    def __init__(self, of, seed, weights):
        self.of, self._seed, self._weights = of, seed, weights

    def put_into(self, model):
        """Adds its share to a stage's model, whose own weights then are frozen. Every module draws
        its weights from the seed and its name, so that they are the same for any stages."""
        from peft import inject_adapter_in_model, set_peft_model_state_dict
        from peft.tuners.tuners_utils import cast_adapter_dtype

        model.requires_grad_(False)
        there = dict(model.named_modules())
        mine = [name for name in self.of.ranks if name in there]
        if mine:
            share = _config_for(self.of.config, mine)
            with _making_adapters():
                inject_adapter_in_model(share, model, self.of.name, low_cpu_mem_usage=True)
                for name in mine:
                    self._draw(model.get_submodule(name), name, share)
            cast_adapter_dtype(model, self.of.name)  # as get_peft_model does
        model.peft_config = {self.of.name: self.of.config}
        if mine and self._weights is not None:
            own = {key: tensor for key, tensor in self._weights.items()
                   if _module_of(key) in mine}
            set_peft_model_state_dict(model, own, self.of.name)

    def _draw(self, module, name, config):
        text = f"{self._seed} {name}".encode()
        torch.manual_seed(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) >> 1)
        module.update_layer(self.of.name, module.r[self.of.name],
                            lora_alpha=module.lora_alpha[self.of.name], config=config)


def new_adapter(model, adapter, seed=0):
    """The NewAdapter of a model, of which no weight is read.

    model: a configuration, a name on the Hub, a folder, or a model of transformers.
    adapter: a LoraConfig, or the folder or Hub name of an adapter that PEFT has saved.
    seed: of random weights.

    Raises InvalidInput where adapter_of does, and where saved weights are not those of this model.
    """
    peft = require_peft()
    config, weights = adapter, None
    if not isinstance(adapter, peft.PeftConfig):
        config, weights = _saved(peft, adapter)
    require_plain_lora(config)
    config = copy.deepcopy(config)
    config.inference_mode = False
    known = isinstance(model, PreTrainedModel)
    family, model_config = (type(model), model.config) if known else family_of(model)
    require_trainable(model_config)
    with torch.device("meta"):
        whole = family(copy.deepcopy(model_config))
    with _making_adapters():
        peft.inject_adapter_in_model(config, whole, NAME, low_cpu_mem_usage=True)
    if isinstance(model, (str, os.PathLike)):
        config.base_model_name_or_path = config.base_model_name_or_path or str(model)
    if weights is not None:
        _require_weights(whole, weights, adapter)
    return NewAdapter(adapter_of(whole), seed, weights)


def _saved(peft, folder):
    """(config, weights by PEFT's names) of an adapter that PEFT has saved."""
    from peft.utils.save_and_load import load_peft_weights

    with _making_adapters():
        return (peft.PeftConfig.from_pretrained(str(folder)),
                load_peft_weights(str(folder), device="cpu"))


def _require_weights(model, weights, folder):
    from peft import get_peft_model_state_dict

    known = get_peft_model_state_dict(model, adapter_name=NAME, save_embedding_layers=False)
    expected = {PREFIX + name: tuple(tensor.shape) for name, tensor in known.items()}
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            raise InvalidInput(
                f"{folder} has {name} of shape {found.get(name)}, this model's is of shape "
                f"{expected.get(name)}; give the adapter of this model")
        if not torch.isfinite(weights[name]).all():
            raise InvalidInput(f"{folder}: {name} holds values that are not finite numbers, so this "
                               "adapter cannot be trained; take a sound copy")


def add_random(model, adapter, seed):
    """Puts into a small model the adapter of a larger one of its family, with random weights: into
    every layer. Returns the parameters that train."""
    from peft import inject_adapter_in_model

    ranks = {_in_layer(name): min(rank, _MOST_RANK) for name, rank in adapter.ranks.items()}
    config = _config_for(adapter.config, list(ranks))
    config.rank_pattern, config.alpha_pattern = ranks, {}
    config.inference_mode = False
    with _making_adapters(), torch.device("cpu"):
        torch.manual_seed(seed)
        inject_adapter_in_model(config, model, adapter.name)
    return adapter_of(model).parameters(model).values()


def require_equal_replicas(stage, groups):
    """Raises InvalidInput, on all ranks alike, where replicas begin with other weights of an adapter.
    Called by all ranks."""
    if stage.adapter is None:
        return
    digest = hashlib.blake2b(digest_size=7)
    for parameter in stage.stored_parameters().values():
        digest.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy())
    said = groups.gather_numbers([int.from_bytes(digest.digest())])
    for rank, other in enumerate(said):
        if other != said[rank % stage.place.stages]:
            groups.let_all_hear()
            raise InvalidInput(
                f"the adapters of ranks {rank % stage.place.stages} and {rank} begin with different "
                "weights; call torch.manual_seed with the same number on all ranks before PEFT makes "
                "them")


def _config_for(config, modules):
    """Returns the same LoraConfig for these modules alone."""
    changed = copy.deepcopy(config)
    changed.target_modules = set(modules)
    changed.exclude_modules = changed.layers_to_transform = changed.layers_pattern = None
    return changed


@contextlib.contextmanager
def _making_adapters():
    """Says in one line what PEFT finds wrong, and leaves torch's random numbers as they were."""
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    except InvalidInput:
        raise
    except Exception as error:
        line = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        raise InvalidInput(f"PEFT cannot make this adapter ({line}); give another one") from error


def _module_of(key):
    """The module that a weight in a file of PEFT's belongs to."""
    return key.removeprefix(PREFIX).partition(".lora_")[0]


def _in_layer(name):
    """A module's name inside its layer, without the layer's number."""
    return re.sub(r"^.*?\.\d+\.", "", name)
