"""Models that this runtime does not train, by what their configuration says."""

from slimpack import InvalidInput

_LAYER_KINDS = {"full_attention", "sliding_attention", "chunked_attention"}
# Probabilities of heads that a causal language model does not have.
_OTHER_HEADS = ("classifier", "summary", "cls")


def require_trainable(config):
    """Raises InvalidInput naming what a configuration has that slices cannot be trained with."""
    text = config.get_text_config()
    _require_attention_layers(text)
    _require_fixed_rope(text)
    for name, value in text.to_dict().items():
        random = ("drop" in name or "jitter" in name) and not name.startswith(_OTHER_HEADS)
        if random and isinstance(value, float) and value > 0:
            raise InvalidInput(
                f"{name} is {value}, must be 0: what is computed again would be dropped "
                f"differently; set config.{name} = 0.0")


def _require_attention_layers(config):
    for layer, kind in enumerate(getattr(config, "layer_types", None) or ()):
        if kind not in _LAYER_KINDS:
            raise InvalidInput(
                f"layer {layer} of {config.model_type} is \"{kind}\", slices need layers that keep "
                "keys and values alone; train this model without a pipeline")


def _require_fixed_rope(config):
    rope = getattr(config, "rope_parameters", None) or {}
    kinds = [rope] if "rope_type" in rope else [r for r in rope.values() if isinstance(r, dict)]
    if any(kind.get("rope_type") == "dynamic" for kind in kinds):
        raise InvalidInput(
            "rope_type is \"dynamic\", whose frequencies depend on the documents that ran before; "
            "set another rope_type")
