"""Facts about a model that need no run: kinds of layers, numbers of parameters."""

import dataclasses
from typing import NamedTuple

import torch

from slimpack import InvalidInput
from slimpack.torch.pipeline.layers import find_layers
from slimpack.torch.pipeline.ownership import ownership_of
from slimpack.torch.pipeline.stage import Place, divide

# Names of the same thing in different families.
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_CHOSEN_EXPERTS = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k")


@dataclasses.dataclass(frozen=True)
class LayerKind:
    """Layers that cost the same.

    layer: the first of them. window: the most tokens that a token sees; 0 = all before it.
    attends, has_state: whether tokens see others' keys, and whether they get a state from the ones
    before. weights: elements of the matrices that a token is multiplied with. trained,
    trained_weights: of both what is not frozen.
    """

    layer: int
    window: int
    parameters: int
    weights: int
    trained: int
    trained_weights: int
    attends: bool = True
    has_state: bool = False


class Edges(NamedTuple):
    """Parameters that the first and the last stage need beside their layers; shared: of those, what
    both need."""

    before: int
    after: int
    shared: int


@dataclasses.dataclass(frozen=True)
class CountedModel:
    """trained: the part of `edges` that is not frozen."""

    kinds: tuple[LayerKind, ...]
    kind_of_layer: tuple[int, ...]
    edges: Edges
    trained: Edges

    @property
    def is_whole(self):
        """Whether nothing is frozen."""
        return self.trained == self.edges and all(
            kind.trained == kind.parameters for kind in self.kinds)

    def totals(self):
        """(trained parameters, all parameters) of the model."""
        kinds = [self.kinds[kind] for kind in self.kind_of_layer]
        ends = [edges.before + edges.after - edges.shared for edges in (self.trained, self.edges)]
        return (sum(kind.trained for kind in kinds) + ends[0],
                sum(kind.parameters for kind in kinds) + ends[1])


def counted(blueprint):
    """The CountedModel. Raises InvalidInput for models that the pipeline cannot train, and where all
    is frozen."""
    config = blueprint.config
    model = blueprint.unloaded(torch.float32)
    _, layers = find_layers(model)
    owned = ownership_of(model)
    edges, trained = _edges(model, owned)
    layers = list(layers)
    observed = divide(model, Place(0, (0, len(layers)))).observed
    windows = observed.attention.windows
    kinds, kind_of_layer, known = [], [], {}
    for number, layer in enumerate(layers):
        window = windows.get(number) or 0
        if window >= getattr(config.get_text_config(), "max_position_embeddings", window + 1):
            window = 0
        signature = _signature(layer), window
        if signature not in known:
            known[signature] = len(kinds)
            kinds.append(dataclasses.replace(
                _kind_of(layer, number, window, config.get_text_config()),
                attends=number in windows, has_state=number in observed.mixers))
        kind_of_layer.append(known[signature])
    _require_one_window(kinds)
    model_counts = CountedModel(tuple(kinds), tuple(kind_of_layer), edges, trained)
    if model_counts.totals()[0] == 0:
        raise InvalidInput(
            f"{type(model).__name__} has no parameter that is trained; load its adapters with "
            "is_trainable=True, or set requires_grad")
    return model_counts


def _kind_of(layer, number, window, config):
    trained = {name: p for name, p in layer.named_parameters() if p.requires_grad}
    return LayerKind(number, window, sum(p.numel() for p in layer.parameters()),
                     _weights(dict(layer.named_parameters()), config),
                     sum(p.numel() for p in trained.values()), _weights(trained, config))


def _edges(model, owned):
    """The Edges of all parameters, and of those that are trained."""
    # Ties have the names from before adapters were put around modules.
    ties = {name: model.all_tied_weights_keys.get(name.replace(".base_layer.", "."), name)
            for name in owned.before | owned.after}
    before, after = ({ties[name] for name in names} for names in (owned.before, owned.after))
    parameters = dict(model.named_parameters(remove_duplicate=False))

    def total(names, only_trained):
        return sum(parameters[name].numel() for name in names
                   if parameters[name].requires_grad or not only_trained)

    return (Edges(*(total(names, only) for names in (before, after, before & after)))
            for only in (False, True))


def _signature(layer):
    """Equal for layers of the same modules and shapes."""
    return (tuple((name, type(module).__qualname__) for name, module in layer.named_modules()),
            tuple((name, tuple(p.shape), p.requires_grad) for name, p in layer.named_parameters()))


def _weights(parameters, config):
    """The weights that a token uses, of parameters by name: of experts only those that it is sent
    to."""
    everyone, chosen = (_first_of(config, names) for names in (_EXPERTS, _CHOSEN_EXPERTS))
    weights = 0
    for name, parameter in parameters.items():
        if parameter.ndim > 1:
            share = chosen / everyone if ".experts." in f".{name}." else 1
            weights += round(parameter.numel() * share)
    return weights


def _first_of(config, names):
    """The first of these numbers that a configuration has; of a list, with one for each layer, the
    largest; else 1."""
    found = next((value for name in names if (value := getattr(config, name, None))), 1)
    return max(found) if isinstance(found, (list, tuple)) else found


def _require_one_window(kinds):
    windows = sorted({kind.window for kind in kinds} - {0})
    if len(windows) > 1:
        raise InvalidInput(
            f"layers have windows of {windows[0]} and {windows[1]} tokens, plans know one; profile "
            "a model whose windows are alike")
