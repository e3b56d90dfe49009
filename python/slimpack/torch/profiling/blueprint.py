"""A profile's models are made from a configuration, adapters, and what of it is frozen."""

import copy
from typing import NamedTuple

import torch
from slimpack import InvalidInput
from slimpack.torch.pipeline.family import config_of, family_of

_REMEDY = "give the configuration of one"
_LEAST_BYTES = 4  # of gradients and moments, which WideAdamW keeps in fp32 at least


class StateBytes(NamedTuple):
    """Bytes of each trained parameter, on average."""

    weights: float
    gradients: float
    optimizer: float


class Blueprint:
    """Made by Blueprint.of.

    config: of the model. adapters: PEFT's configurations by the adapters' names.
    """

    def __init__(self, config, adapters, given):
        self.config, self.adapters, self._given = config, adapters, given

    @classmethod
    def of(cls, model, adapter=None):
        """model: a model, also one with PEFT's adapters; a configuration, or a name or folder of one.
        adapter: a configuration of PEFT that the model is to have.

        Raises InvalidInput for what is no causal decoder, and for adapters that layers do not have.
        """
        if not isinstance(model, torch.nn.Module):
            config = config_of(model, _REMEDY)
            return cls(config, {} if adapter is None else _checked({"default": adapter}), {})
        adapters = _checked(getattr(model, "peft_config", None) or {})
        if adapter is not None and adapters:
            raise InvalidInput(
                f"adapter is a {type(adapter).__name__}, but the model has adapters by itself "
                f"({', '.join(adapters)}); leave adapter out")
        if adapter is not None:
            return cls(config_of(model.config, _REMEDY), _checked({"default": adapter}), {})
        base = model.get_base_model() if hasattr(model, "get_base_model") else model
        given = dict(base.named_parameters(remove_duplicate=False))
        return cls(config_of(base.config, _REMEDY), adapters, given)

    def unloaded(self, dtype):
        """The model without memory for its parameters. What is frozen has this dtype; what is trained
        may be wider, as PEFT has adapters in fp32 at least."""
        family, config = family_of(self.config)
        with torch.device("meta"):
            model = family._from_config(copy.deepcopy(config), dtype=dtype,
                                        attn_implementation="eager")
        for name, adapter in self.adapters.items():
            _inject(adapter, model, name)
        for name, parameter in model.named_parameters():
            if name in self._given:
                self._follow(parameter, self._given[name], dtype)
        return model

    def _follow(self, parameter, given, dtype):
        parameter.requires_grad_(given.requires_grad)
        if self.adapters and given.requires_grad:
            parameter.data = parameter.data.to(torch.promote_types(given.dtype, dtype))

    def trained_bytes(self, dtype):
        """The StateBytes of a run in this dtype with WideAdamW."""
        trained = [p for p in self.unloaded(dtype).parameters() if p.requires_grad]
        number = sum(p.numel() for p in trained)
        weights, wide, copies = (
            sum(p.numel() * of(p.itemsize) for p in trained) / number
            for of in (int, _wide, lambda size: _wide(size) if size < _wide(size) else 0))
        return StateBytes(weights, wide, 2 * wide + copies)


def _wide(size):
    return max(size, _LEAST_BYTES)


def initialized(model, device):
    """A model of a blueprint with random weights on a device; its stage's part is enough."""
    model.to_empty(device=device)
    model.init_weights()
    if hasattr(model, "peft_config"):
        for parameter in (p for p in model.parameters() if p.requires_grad):
            torch.nn.init.normal_(parameter, std=0.02)
    return model


def _checked(adapters):
    for name, adapter in adapters.items():
        kind = getattr(adapter, "peft_type", None)
        if kind is None:
            raise InvalidInput(f"adapter is of type {type(adapter).__name__}, must be a configuration "
                               "of peft; give one, such as peft.LoraConfig(r=16)")
        if adapter.is_prompt_learning or adapter.is_adaption_prompt:
            raise InvalidInput(f"adapter {name!r} is of PEFT's type {kind.value}, which is no part of "
                               "a layer; give one that is, such as peft.LoraConfig(r=16)")
    return adapters


def _inject(adapter, model, name):
    from peft import inject_adapter_in_model
    from peft.tuners.tuners_utils import cast_adapter_dtype

    adapter = copy.deepcopy(adapter)
    adapter.inference_mode = False
    adapter.init_lora_weights = False  # some ways decompose weights, of which there are none
    try:
        inject_adapter_in_model(adapter, model, name)
    except ValueError as error:
        raise InvalidInput(f"adapter {name!r} does not fit {type(model).__name__}: {error}; give one "
                           "that PEFT can add to this model") from error
    cast_adapter_dtype(model, name)
