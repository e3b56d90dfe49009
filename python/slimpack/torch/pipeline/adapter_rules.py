"""Adapters that this runtime does not train, by what their configuration or their modules say."""

import dataclasses

from slimpack import InvalidInput
from slimpack.torch.pipeline.layers import find_layers

# Fields of a LoraConfig that may have any value: where adapters are, how large and how scaled, and what
# PEFT notes about a file.
_ANY = {"peft_type", "task_type", "auto_mapping", "peft_version", "base_model_name_or_path", "revision",
        "inference_mode", "r", "lora_alpha", "rank_pattern", "alpha_pattern", "target_modules",
        "exclude_modules", "layers_to_transform", "layers_pattern", "fan_in_fan_out", "use_rslora",
        "use_dora", "lora_bias", "runtime_config"}
_INITIALS = (True, False, "gaussian", "orthogonal")  # which leave the base model's weights as they are
_REASONS = {
    "lora_dropout": "what is computed again would be dropped differently; set it to 0",
    "bias": "biases of the base model would train, which belongs to all its adapters; set it to \"none\"",
    "modules_to_save": "whole modules would train beside the adapter; leave it out",
    "trainable_token_indices": "rows of the embedding would train beside the adapter; leave it out",
    "target_parameters": "adapters are tried in linear modules alone; name modules in target_modules",
    "layer_replication": "the model would have other layers than its configuration says; leave it out",
    "alora_invocation_tokens": "slices do not know the tokens of the whole document; leave it out",
    "init_lora_weights": "it changes the base model's weights or needs data; set it to True, False, "
                         "\"gaussian\" or \"orthogonal\"",
}


def require_plain_lora(config):
    """Raises InvalidInput for an adapter that is more than LoRA of linear modules."""
    kind = str(getattr(config.peft_type, "value", config.peft_type))
    if kind != "LORA":
        raise InvalidInput(f"peft_type is {kind}, stages are tried with LORA alone; give a LoraConfig")
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.name in _ANY or _is_default(field, value):
            continue
        if field.name == "init_lora_weights" and value in _INITIALS:
            continue
        reason = _REASONS.get(field.name, "stages are tried with plain LoRA alone; leave it out")
        raise InvalidInput(f"{field.name} is {_shown(value)}: {reason}")


def _is_default(field, value):
    """Whether a field says nothing: None, an empty container and False are as good as its default."""
    made = field.default_factory
    default = field.default if made is dataclasses.MISSING else made()
    return value == default or not value and not default or value == {} or value == []


def _shown(value):
    return f"\"{value}\"" if isinstance(value, str) else str(value)


def require_trainable_modules(model, modules, adapter):
    """Raises InvalidInput where a model's modules do not train this adapter and it alone.

    modules: by name PEFT's, which wrap the model's own.
    """
    from peft.tuners.lora.layer import Linear

    inside = {module for layer in find_layers(model)[1] for module in layer.modules()}
    for name, module in modules.items():
        if module not in inside:
            raise InvalidInput(
                f"{name} has an adapter and is outside the decoder layers, whose adapters alone are "
                "divided into stages; leave it out of target_modules")
        if type(module) is not Linear:
            raise InvalidInput(
                f"the adapter of {name} is of type {type(module).__module__}.{type(module).__name__}, "
                "stages are tried with those of linear modules; leave it out of target_modules")
        if module.merged or module.disable_adapters or list(module.active_adapters) != [adapter]:
            state = "merged" if module.merged else "not active"
            raise InvalidInput(f"the adapter of {name} is {state}, so it would not train; unmerge and "
                               "enable it first")
    trained = [name for name, p in model.named_parameters() if p.requires_grad]
    if not trained:
        raise InvalidInput(
            "no parameter of the adapter trains; load it with PeftModel.from_pretrained(…, "
            "is_trainable=True)")
    for name in trained:
        if name.partition(".lora_")[0] not in modules:
            raise InvalidInput(
                f"{name} would train beside the adapter, whose folder does not hold it; freeze it "
                "with requires_grad_(False)")
