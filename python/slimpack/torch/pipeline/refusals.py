"""Models that this runtime does not train, by what their configuration says or by how they fail."""

from slimpack import InvalidInput
from slimpack.torch.pipeline.layers import MissingPart

_ATTENTION_KINDS = {"full_attention", "sliding_attention", "chunked_attention", "indexed_attention",
                    "minimax_m3_sparse"}
_STATE_KINDS = {"linear_attention", "conv", "mamba", "hybrid"}
_TOKENWISE_KINDS = {"mlp", "moe"}  # each token by itself
_LAYER_KINDS = _ATTENTION_KINDS | _STATE_KINDS | _TOKENWISE_KINDS
# Families whose layers pass on more than slices can, by what their code does.
_BETWEEN_SLICES = {
    "minimax": "its linear attention goes on from a state token by token",
    "recurrent_gemma": "its layers keep their states themselves",
    "rwkv": "its states are lists of its own, not a cache",
    "xlstm": "its states are in a cache of its own",
}
_BETWEEN_STAGES = {
    "zamba": "its layers read the token embedding and share weights",
    "zamba2": "its layers read the token embedding and share weights",
    "zaya": "its routers get a tensor from the layer before",
}
# Probabilities of heads that a causal language model does not have.
_OTHER_HEADS = ("classifier", "summary", "cls")


def require_trainable(config):
    """Raises InvalidInput naming what a configuration has that slices cannot be trained with."""
    _require_no_quantization(config)
    text = config.get_text_config()
    _require_states_in_cache(text)
    _require_attention_layers(text)
    _require_own_keys(text)
    _require_fixed_rope(text)
    for name, value in random_settings(text).items():
        raise InvalidInput(
            f"{name} is {value}, must be 0: what is computed again would be dropped differently; "
            f"set config.{name} = 0.0")


def mixes_no_tokens(config, layer):
    """Whether the configuration says that a layer has neither attention nor a state."""
    text = config.get_text_config()
    kinds = getattr(text, "layer_types", None) or getattr(text, "layers_block_type", None)
    return bool(kinds) and kinds[layer] in _TOKENWISE_KINDS


def stage_begins(config):
    """The layers at which a stage may begin: none that uses the keys which the layer before has
    chosen (GLM's sparse attention). config: of the language model."""
    kinds = getattr(config, "indexer_types", None) or ["full"] * config.num_hidden_layers
    return [layer for layer, kind in enumerate(kinds) if kind == "full"]


def require_cache_in_training(layers):
    """Raises InvalidInput for layers under transformers' own checkpoints, which take the cache away."""
    if any(getattr(layer, "gradient_checkpointing", False) for layer in layers):
        raise InvalidInput(
            "gradient checkpointing is on, with which layers get no cache, so that slices see no tokens "
            "before them; call model.gradient_checkpointing_disable(), plans recompute layers themselves")


def require_wide_weights(model):
    """Raises InvalidInput for a model whose weights take fewer than 16 bits, whatever its
    configuration says."""
    for name, parameter in model.named_parameters():
        if not parameter.is_floating_point() or parameter.dtype.itemsize < 2:
            raise _narrow(f"{name} is {parameter.dtype}")


def _narrow(what):
    return InvalidInput(f"{what}, slices are tried with weights of 16 bits and wider; take the model in "
                        "bf16")


def random_settings(config):
    """By name the probabilities above 0 with which a model drops or changes numbers in training."""
    return {name: value for name, value in config.to_dict().items()
            if ("drop" in name or "jitter" in name) and not name.startswith(_OTHER_HEADS)
            and isinstance(value, float) and value > 0}


def _require_no_quantization(config):
    settings = getattr(config, "quantization_config", None)
    if not settings:
        return
    settings = settings if isinstance(settings, dict) else settings.to_dict()
    if not settings.get("dequantize"):
        raise _narrow(f"quantization_config asks for weights in the format of "
                      f"{settings.get('quant_method')}")


def _require_states_in_cache(config):
    if reason := _BETWEEN_SLICES.get(config.model_type):
        raise InvalidInput(f"slices cannot hand on the states of {config.model_type}: {reason}; train "
                           "this model without a pipeline")
    if reason := _BETWEEN_STAGES.get(config.model_type):
        raise InvalidInput(f"{config.model_type} cannot be divided into stages: {reason}; train this "
                           "model without a pipeline")


def _require_attention_layers(config):
    for layer, kind in enumerate(getattr(config, "layer_types", None) or ()):
        if kind not in _LAYER_KINDS:
            raise InvalidInput(
                f"layer {layer} of {config.model_type} is \"{kind}\", slices need layers that keep "
                "keys, values and states alone; train this model without a pipeline")


def _require_own_keys(config):
    shared = getattr(config, "num_kv_shared_layers", None)
    if shared:
        raise InvalidInput(
            f"num_kv_shared_layers is {shared}: these layers use the keys and values of others, "
            "which may lie on another stage; train this model without a pipeline")


def _require_fixed_rope(config):
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = [rope] if "rope_type" in rope else [r for r in rope.values() if isinstance(r, dict)]
    if any(kind.get("rope_type") == "dynamic" for kind in kinds):
        raise InvalidInput(
            "rope_type is \"dynamic\", whose frequencies depend on the documents that ran before; "
            "set another rope_type")


def reason_of(model, error):
    """Why the code of a model or its class fails on slices, in a few words."""
    if isinstance(error, MissingPart):
        return str(error)
    if not model._supports_attention_backend:
        return "its attention does not go through transformers' interface"
    if "MaskRule" in str(error):
        return "it computes with the attention mask, of which slices have the rule alone"
    return f"{type(error).__name__}: {error}".strip().split("\n")[0]
