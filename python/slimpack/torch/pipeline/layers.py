"""A model's decoder layers, and what takes the place of layers that another stage has."""

import inspect

from torch import nn

from slimpack import InvalidInput
from slimpack.torch.pipeline.language_model import language_modules
from slimpack.torch.pipeline.work import Stopped


def find_layers(model):
    """(decoder, its list of layers) of a causal language model, wherever the family keeps them. The
    decoder is the innermost module that has the list and takes token ids.

    Raises InvalidInput where no list has one entry for each of the model's layers.
    """
    count = model.config.get_text_config().num_hidden_layers
    for name, module in language_modules(model):
        for child in module.children():
            if isinstance(child, nn.ModuleList) and len(child) == count:
                return _innermost_decoder(model, name), child
    raise InvalidInput(
        f"{type(model).__name__} has no list of its {count} decoder layers, so it cannot be "
        "divided into stages; give a causal decoder")


def _innermost_decoder(model, name):
    """The module of that name, or what it is inside of."""
    module = model.get_submodule(name)
    while name and "input_ids" not in inspect.signature(module.forward).parameters:
        name = name.rpartition(".")[0]
        module = model.get_submodule(name)
    return module


def inputs_beside_tokens(module, cache, positions_1T):
    """The arguments by which a model or its decoder takes a cache and positions; some without
    attention have no positions, and another name for the cache."""
    takes = inspect.signature(module.forward).parameters
    if "cache_params" in takes and "past_key_values" not in takes:
        return {"cache_params": cache}
    return {"past_key_values": cache, "position_ids": positions_1T}


def first_argument(args, kwargs):
    """The hidden states that a decoder hands to a layer."""
    return args[0] if args else kwargs["hidden_states"]


def with_first_argument(hidden, args, kwargs):
    """(args, kwargs) with other hidden states."""
    return ((hidden, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": hidden})


class MissingPart(AttributeError):
    """Code of a decoder asks a stand-in for a part of its layer."""


class Skip(nn.Module):
    """A layer of another stage. Names, indices and checkpoint keys of the others stay as they
    were.

    layer: in whose place it is; decoders read plain attributes of their layers, such as a kind.
    values: how many values the decoder unpacks; None = it takes the hidden states alone.
    """

    def __init__(self, layer, values=None):
        super().__init__()
        self._values = values
        for name, value in vars(layer).items():
            if isinstance(value, (str, int)) and not name.startswith("_"):
                setattr(self, name, value)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            raise MissingPart(f"outside the layers its code reads {name} of one, which another stage "
                              "may have") from None

    def forward(self, *args, **kwargs):
        return self.result(first_argument(args, kwargs))

    def result(self, hidden):
        """The hidden states, as the layer returns them."""
        return hidden if self._values is None else (hidden, *[None] * (self._values - 1))


class End(Skip):
    """The first layer after the stage: ends the stage's work."""

    def forward(self, *args, **kwargs):
        raise Stopped(first_argument(args, kwargs))
