"""Finds the parameters outside the layers that a stage needs, by looking at what depends on
them."""

import torch

from slimpack import InvalidInput
from slimpack.torch.pipeline.attention import NAME
from slimpack.torch.pipeline.cache import Running, SliceCache
from slimpack.torch.pipeline.language_model import settings_of
from slimpack.torch.pipeline.layers import (
    Skip,
    find_layers,
    first_argument,
    inputs_beside_tokens,
)
from slimpack.torch.pipeline.refusals import reason_of

TOKENS = 2  # of the model's calls here
_FORMS = (None, 1, 2, 3, 4)  # what layers may return, as Skip takes it


class Ownership:
    """before, after: names of the parameters that act before the first layer and after the last
    one; a tied embedding is in both. width: of the hidden states between layers. values: how many a
    layer returns, as Skip takes it."""

    def __init__(self, before, after, width, values):
        self.before, self.after, self.width, self.values = before, after, width, values


class _Cut(Skip):
    """In place of the first layer: separates what comes before the layers from what comes after."""

    def forward(self, *args, **kwargs):
        self.before = first_argument(args, kwargs)
        self.beside = [value for value in _tensors((args[1:], kwargs)) if value is not self.before]
        self.ran = 1
        return self.result(self.before.detach().requires_grad_())


class _Next(Skip):
    """In place of the other layers: notes that they get the hidden states of the first one."""

    def __init__(self, layer, values, cut):
        super().__init__(layer, values)
        self._cut = cut

    def forward(self, *args, **kwargs):
        hidden = first_argument(args, kwargs)
        if hidden.shape != self._cut.before.shape:  # the decoder took hidden states for several values
            raise TypeError(f"hidden states become {tuple(hidden.shape)} between layers")
        self._cut.ran += 1
        return self.result(hidden)


def ownership_of(model):
    """The Ownership of a whole model, also of one on the meta device. Leaves the model as it was. How many
    values a layer returns is tried.

    Raises InvalidInput for a model whose layers share more than one hidden state a token.
    """
    frozen = [p for p in model.parameters() if not p.requires_grad]
    failures = []  # (how many layers ran, error)
    try:
        for p in frozen:
            p.requires_grad_(p.is_floating_point())
        for form in _FORMS:
            cut, logits = _without_layers(model, form, failures)
            if logits is not None:
                break
        else:
            error = max(failures, key=lambda failure: failure[0])[1]
            raise InvalidInput(
                f"{type(model).__name__} does not run without its layers: {reason_of(model, error)}; "
                "train this model without a pipeline") from error
    finally:
        for p in frozen:
            p.requires_grad_(False)
    names = {parameter: name for name, parameter in model.named_parameters()}
    _require_one_stream(model, cut, names)
    return Ownership(_names(cut.before, names), _names(logits, names), cut.before.shape[-1], form)


def _without_layers(model, values, failures):
    """(the _Cut, logits) of a call in which each layer returns that many values; logits are None, and the
    error is noted, where the decoder expects another number."""
    _, layers = find_layers(model)
    mine = list(layers)
    cut = _Cut(mine[0], values)
    for i in range(len(layers)):
        layers[i] = _Next(mine[i], values, cut) if i else cut
    cut.ran = 0
    try:
        return cut, call_model(model, Running())
    except Exception as error:  # the family's own code, of any kind
        failures.append((cut.ran, error))
        return cut, None
    finally:
        for i, layer in enumerate(mine):
            layers[i] = layer


def forget_absent_ties(model):
    """Loading would look for parameters that other stages have."""
    names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    ties = model.all_tied_weights_keys.items()
    model.all_tied_weights_keys = {name: of for name, of in ties if {name, of} <= names}


def call_model(model, running):
    """Logits of a few tokens, by the model's own code."""
    device = next(model.parameters()).device
    ids_1T = torch.arange(TOKENS, device=device)[None]
    parts = settings_of(model)  # past the validation of single settings
    before = [dict(settings) for settings in parts]
    for settings in parts:
        settings.update(_attn_implementation_internal=NAME, output_router_logits=False)
    # Families that warn of padding would look at the ids, which the meta device does not have.
    parts[0]["pad_token_id"] = None
    try:
        with torch.enable_grad():
            beside = inputs_beside_tokens(model, SliceCache(running), ids_1T)
            return model(input_ids=ids_1T, **beside, use_cache=True).logits
    finally:
        for settings, values in zip(parts, before, strict=True):
            settings.clear()
            settings.update(values)


def names_of_language(model, layers, before, after):
    """Names of the parameters of a model's language model: those of an Ownership, and its layers'."""
    inner = {parameter for layer in layers for parameter in layer.parameters()}
    return before | after | {name for name, parameter in model.named_parameters() if parameter in inner}


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
