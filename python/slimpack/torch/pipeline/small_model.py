"""A small model of a family, with random weights, in fp64."""

import copy

import torch

from slimpack import InvalidInput
from slimpack.torch.pipeline.comparison import Fp64Casts
from slimpack.torch.pipeline.language_model import is_part
from slimpack.torch.pipeline.layers import find_layers
from slimpack.torch.pipeline.ownership import Hollow, names_of_language, ownership_of
from slimpack.torch.pipeline.refusals import reason_of
from slimpack.torch.pipeline.scans import run_kernels_on_gpus_alone
from slimpack.torch.pipeline.small_config import WIDTHS, small_config

MOST_PARAMETERS = 1 << 24


def small_model(family, config, seed):
    """A small model of a transformers class, random and in fp64, with the features of a config.

    Raises InvalidInput where neither a smaller configuration nor config itself makes one.
    """
    run_kernels_on_gpus_alone(family)
    reason, refusal = "", None
    for make in [lambda widths=widths: small_config(config, widths) for widths in WIDTHS] + [
            lambda: copy.deepcopy(config)]:
        try:
            model = _random_model(family, make(), seed)
        except InvalidInput as error:  # of no widths
            refusal = refusal or error
            continue
        except Exception as error:  # the family's own rules, of any kind
            reason = reason or reason_of(family, error)
            continue
        if model is not None:
            return model
    if refusal is not None:
        raise refusal
    raise InvalidInput(
        f"no small model of {family.__name__} can be made to check it "
        f"({reason or 'all are too large'}); give one of at most {MOST_PARAMETERS:,} parameters")


def _random_model(family, config, seed):
    """None = it has too many parameters."""
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"  # the others do not compute in fp64
    for part in (config, config.get_text_config()):
        part.output_router_logits = False
    with torch.device("meta"):
        model = family(copy.deepcopy(config))
        rest = _without_rest(model) if is_part(config) else None
    if sum(p.numel() for p in model.parameters()) > MOST_PARAMETERS:
        return None
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.manual_seed(seed)
        if rest is None:
            model = family(config)
        else:
            model.to_empty(device="cpu").init_weights()
            rest.fill(torch.float64, "cpu")
        model = model.double().train()
        _scatter(model.parameters())
    tokens_1T = torch.arange(3)[None]
    with torch.no_grad(), Fp64Casts():
        model(input_ids=tokens_1T, use_cache=False)
    return model


def _without_rest(model):
    """The Hollow of what is no part of a model's language model."""
    owned = ownership_of(model)
    _, layers = find_layers(model)
    return Hollow(model, names_of_language(model, layers, owned.before, owned.after))


def scatter(parameters, seed):
    """Adds random numbers to parameters of a small model, so that none is 0."""
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.manual_seed(seed)
        _scatter(parameters)


@torch.no_grad()
def _scatter(parameters):
    for parameter in parameters:  # biases, sinks and norms away from 0 and 1
        size = 0.5 / parameter.shape[-1] ** 0.5 if parameter.ndim > 1 else 0.1
        parameter += torch.randn_like(parameter) * size
