"""A model's decoder layers, and what takes the place of layers that another stage has."""

from torch import nn

from slimpack import InvalidInput
from slimpack.torch.pipeline.work import Stopped


def find_layers(model):
    """(decoder, its list of layers) of a causal language model, wherever the family keeps them.

    Raises InvalidInput where no list has one entry for each of the model's layers.
    """
    count = model.config.get_text_config().num_hidden_layers
    for module in model.modules():
        for child in module.children():
            if isinstance(child, nn.ModuleList) and len(child) == count:
                return module, child
    raise InvalidInput(
        f"{type(model).__name__} has no list of its {count} decoder layers, so it cannot be "
        "divided into stages; give a causal decoder")


def first_argument(args, kwargs):
    """The hidden states that a decoder hands to a layer."""
    return args[0] if args else kwargs["hidden_states"]


def with_first_argument(hidden, args, kwargs):
    """(args, kwargs) with other hidden states."""
    return ((hidden, *args[1:]), kwargs) if args else (args, {**kwargs, "hidden_states": hidden})


class Skip(nn.Module):
    """A layer of another stage. Names, indices and checkpoint keys of the others stay as they
    were."""

    def forward(self, *args, **kwargs):
        return first_argument(args, kwargs)


class End(Skip):
    """The first layer after the stage: ends the stage's work."""

    def forward(self, *args, **kwargs):
        raise Stopped(first_argument(args, kwargs))
