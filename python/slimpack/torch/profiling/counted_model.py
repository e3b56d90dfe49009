"""Facts about a model that need no run: kinds of layers, numbers of parameters."""

import dataclasses

import torch
from transformers import AutoModelForCausalLM

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
    weights: elements of the matrices that a token is multiplied with.
    """

    layer: int
    window: int
    parameters: int
    weights: int


@dataclasses.dataclass(frozen=True)
class CountedModel:
    """before, after: parameters that the first and the last stage need beside their layers; shared:
    of those, what both need."""

    kinds: tuple[LayerKind, ...]
    kind_of_layer: tuple[int, ...]
    before: int
    after: int
    shared: int


def unloaded(config, dtype):
    """The model without memory for its parameters."""
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="eager")


def counted(config):
    """The CountedModel. Raises InvalidInput for models that the pipeline cannot train."""
    model = unloaded(config, torch.float32)
    owned = ownership_of(model)
    ties = model.all_tied_weights_keys
    before, after = ({ties.get(name, name) for name in names}
                     for names in (owned.before, owned.after))
    sizes = {name: p.numel() for name, p in model.named_parameters(remove_duplicate=False)}
    _, layers = find_layers(model)
    layers = list(layers)
    windows = divide(model, Place(0, (0, len(layers)))).attention.windows
    kinds, kind_of_layer, known = [], [], {}
    for number, layer in enumerate(layers):
        window = windows[number] or 0
        if window >= getattr(config.get_text_config(), "max_position_embeddings", window + 1):
            window = 0
        signature = _signature(layer), window
        if signature not in known:
            known[signature] = len(kinds)
            kinds.append(LayerKind(number, window, sum(p.numel() for p in layer.parameters()),
                                   _weights(layer, config.get_text_config())))
        kind_of_layer.append(known[signature])
    _require_one_window(kinds)

    def total(names):
        return sum(sizes[name] for name in names)

    return CountedModel(tuple(kinds), tuple(kind_of_layer), total(before), total(after),
                        total(before & after))


def _signature(layer):
    """Equal for layers of the same modules and shapes."""
    return (tuple((name, type(module).__qualname__) for name, module in layer.named_modules()),
            tuple((name, tuple(p.shape)) for name, p in layer.named_parameters()))


def _weights(layer, config):
    """The weights that a token uses: of experts only those that it is sent to."""
    everyone, chosen = (_first_of(config, names) for names in (_EXPERTS, _CHOSEN_EXPERTS))
    weights = 0
    for name, parameter in layer.named_parameters():
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
