"""Finds the parameters outside the layers that a stage needs, by looking at what depends on
them."""

import torch

from slimpack import InvalidInput
from slimpack.torch.pipeline.attention import NAME
from slimpack.torch.pipeline.cache import Running, SliceCache
from slimpack.torch.pipeline.layers import (
    Skip,
    find_layers,
    first_argument,
    inputs_beside_tokens,
)
from slimpack.torch.pipeline.refusals import reason_of

TOKENS = 2  # of the model's calls here


class Ownership:
    """before, after: names of the parameters that act before the first layer and after the last
    one; a tied embedding is in both. width: of the hidden states between layers."""

    def __init__(self, before, after, width):
        self.before, self.after, self.width = before, after, width


class _Cut(Skip):
    """In place of the first layer: separates what comes before the layers from what comes after."""

    def forward(self, *args, **kwargs):
        self.before = first_argument(args, kwargs)
        self.beside = [value for value in _tensors((args[1:], kwargs)) if value is not self.before]
        self.after = self.before.detach().requires_grad_()
        return self.result(self.after)


def ownership_of(model, values=None):
    """The Ownership of a whole model, also of one on the meta device. Leaves the model as it was.

    values: how many values a layer returns, as Skip takes it.

    Raises InvalidInput for a model whose layers share more than one hidden state a token.
    """
    _, layers = find_layers(model)
    mine = list(layers)
    cut = _Cut(mine[0], values)
    for i in range(len(layers)):
        layers[i] = Skip(mine[i], values) if i else cut
    frozen = [p for p in model.parameters() if not p.requires_grad]
    try:
        for p in frozen:
            p.requires_grad_(p.is_floating_point())
        logits = call_model(model, Running())
    except Exception as error:
        raise InvalidInput(
            f"{type(model).__name__} does not run without its layers: {reason_of(model, error)}; "
            "train this model without a pipeline") from error
    finally:
        for i, layer in enumerate(mine):
            layers[i] = layer
        for p in frozen:
            p.requires_grad_(False)
    names = {parameter: name for name, parameter in model.named_parameters()}
    _require_one_stream(model, cut, names)
    return Ownership(_names(cut.before, names), _names(logits, names), cut.before.shape[-1])


def call_model(model, running):
    """Logits of a few tokens, by the model's own code."""
    device = next(model.parameters()).device
    ids_1T = torch.arange(TOKENS, device=device)[None]
    settings = vars(model.config)  # past the validation of single settings
    before = dict(settings)
    # Families that warn of padding would look at the ids, which the meta device does not have.
    settings.update(_attn_implementation_internal=NAME, pad_token_id=None,
                    output_router_logits=False)
    try:
        with torch.enable_grad():
            beside = inputs_beside_tokens(model, SliceCache(running), ids_1T)
            return model(input_ids=ids_1T, **beside, use_cache=True).logits
    finally:
        settings.clear()
        settings.update(before)


def _require_one_stream(model, cut, names):
    family = type(model).__name__
    if cut.before.ndim != 3:
        raise InvalidInput(
            f"{family} hands hidden states of shape {tuple(cut.before.shape)} from layer to layer, "
            "stages exchange one row a token; train this model without a pipeline")
    shared = sorted(set().union(*(_names(tensor, names) for tensor in cut.beside), set()))
    if shared:
        raise InvalidInput(
            f"every layer of {family} depends on {shared[0]}, which one stage alone would train; "
            "train this model without a pipeline")


def _names(tensor, names):
    """Names of the parameters that a tensor depends on."""
    found, seen, todo = set(), set(), [tensor.grad_fn]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if getattr(node, "variable", None) in names:
            found.add(names[node.variable])
        todo += [parent for parent, _ in node.next_functions]
    return found


def _tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


class Hollow:
    """Parameters that a model's code may still name, but of which nothing that comes is used: zeros
    of their shapes, without memory and unknown to optimizers and checkpoints."""

    def __init__(self, model, keep):
        """Replaces every parameter of a model whose name is not in `keep`."""
        kept = {parameter for name, parameter in model.named_parameters() if name in keep}
        self._places = []
        for name, parameter in list(model.named_parameters(remove_duplicate=False)):
            if parameter not in kept:
                path, _, leaf = name.rpartition(".")
                module = model.get_submodule(path)
                del module._parameters[leaf]
                self._places.append((module, leaf, parameter.shape))
                setattr(module, leaf, torch.empty_like(parameter, device="meta"))

    def fill(self, dtype, device):
        """Puts them on a device, with a dtype."""
        for module, leaf, shape in self._places:
            zero = torch.zeros((), dtype=dtype, device=device)
            setattr(module, leaf, zero.expand(shape))
