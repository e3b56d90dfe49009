"""The config.json of a draft head, in EAGLE-3's form and in that of speculators (vLLM).

EAGLE-3's form is a Llama's config.json with one layer, and `draft_vocab_size`. speculators keep the
Llama's keys in `transformer_layer_config` and say `speculators_model_type: eagle3`.
"""

import dataclasses
import json
from pathlib import Path

from slimpack import InvalidInput
from slimpack.numbers import INT32, whole

_DEFAULT_THETA = 10000.0  # of Llama; published heads leave it away
_DEFAULT_EPS = 1e-6
_LAYERS = "eagle_aux_hidden_state_layer_ids"

STEPS = 7  # guesses in a row of training-time test, as EAGLE-3 is trained


@dataclasses.dataclass(frozen=True)
class HeadConfig:
    """The shape of a head.

    target_hidden_size: of the target's hidden states, three of which enter `fc`.
    vocab_size: of the target. draft_vocab_size: tokens that the head can guess.
    target_layers: the three layers of the target whose inputs enter `fc`, counted from 0; the input of
        layer j is the output of layer j - 1. None = the config does not say: EAGLE-3's default.
    norm_before_residual: the attention's residual is the normalised g instead of g.
    fc_norm: each of the three hidden states is normalised before `fc` (EAGLE-3.1).
    norm_output: the next g is the normalised output instead of the output (EAGLE-3.1).
    """

    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    draft_vocab_size: int
    target_hidden_size: int
    rms_norm_eps: float = _DEFAULT_EPS
    rope_theta: float = _DEFAULT_THETA
    max_position_embeddings: int = 2048
    target_layers: tuple[int, int, int] | None = None
    norm_before_residual: bool = False
    fc_norm: bool = False
    norm_output: bool = False

    def __post_init__(self):
        for name in ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads",
                     "head_dim", "vocab_size", "draft_vocab_size", "target_hidden_size",
                     "max_position_embeddings"):
            whole(name, getattr(self, name), 1, INT32)
        for name in ("rms_norm_eps", "rope_theta"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not value > 0:
                raise InvalidInput(f"{name} is {value!r}, must be a number above 0")
        for name in ("norm_before_residual", "fc_norm", "norm_output"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInput(f"{name} is {getattr(self, name)!r}, must be true or false")
        if self.num_attention_heads % self.num_key_value_heads:
            raise InvalidInput(f"num_attention_heads is {self.num_attention_heads}, must be a multiple "
                               f"of num_key_value_heads, which is {self.num_key_value_heads}")
        if self.head_dim % 2:
            raise InvalidInput(f"head_dim is {self.head_dim}, must be even: RoPE turns pairs")
        if self.draft_vocab_size > self.vocab_size:
            raise InvalidInput(f"draft_vocab_size is {self.draft_vocab_size}, must be at most "
                               f"vocab_size, which is {self.vocab_size}")


def default_target_layers(layers):
    """EAGLE-3's choice for a target of so many layers: 2, n/2, n - 3. It needs seven layers to be
    three different ones in order; smaller targets give the first, the middle and the last one."""
    if layers >= 7:
        return 2, layers // 2, layers - 3
    return min(1, layers - 1), layers // 2, layers - 1


def read_config(folder):
    """The HeadConfig of a folder's config.json. Raises InvalidInput."""
    values = config_values(folder)
    try:
        return _config_of(values)
    except InvalidInput as error:
        raise InvalidInput(f"'{Path(folder) / 'config.json'}': {error}") from None


def config_values(folder):
    """The JSON object in a folder's config.json. Raises InvalidInput."""
    file = Path(folder) / "config.json"
    try:
        values = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(f"cannot read '{file}': {reason}; give the folder of a draft head") from None
    if not isinstance(values, dict):
        raise InvalidInput(f"'{file}' holds no JSON object; give the folder of a draft head")
    return values


def own_keys(config):
    """The keys of a config.json in EAGLE-3's own form. No other place says their values."""
    keys = ["hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim",
            "vocab_size", "draft_vocab_size", "rms_norm_eps", "rope_theta"]
    return keys if config.target_layers is None else [*keys, _LAYERS]


def config_json(config):
    """The text of a config.json in EAGLE-3's form."""
    values = dataclasses.asdict(config)
    layers = list(values.pop("target_layers") or [])
    for name in ("norm_before_residual", "fc_norm", "norm_output"):
        if not values[name]:  # readers that do not know them need not see them
            del values[name]
    if config.target_hidden_size == config.hidden_size:
        del values["target_hidden_size"]
    values = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", **values,
              "num_hidden_layers": 1, "hidden_act": "silu", "attention_bias": False,
              "rope_scaling": None, "tie_word_embeddings": False}
    if layers:  # EAGLE and SGLang look into eagle_config, vLLM beside it
        values["eagle_config"] = {"use_aux_hidden_state": True,
                                  "eagle_aux_hidden_state_layer_ids": layers}
        values["eagle_aux_hidden_state_layer_ids"] = layers
    return json.dumps(values, indent=2) + "\n"


def _config_of(values):
    of_layer = _object(values, "transformer_layer_config")
    kind = values.get("speculators_model_type", "eagle3")
    if kind != "eagle3":
        raise InvalidInput(f"speculators_model_type is {kind!r}, must be 'eagle3'")
    # Speculators' vocabularies stand on the outer level. Where both levels have a field, the head's
    # own value is the outer one.
    merged = {**of_layer, **{name: value for name, value in values.items() if value is not None}}
    _refuse_unknown_kinds(merged)
    for name in ("hidden_size", "intermediate_size", "num_attention_heads", "vocab_size"):
        if name not in merged:
            raise InvalidInput(f"{name} is missing; take a complete EAGLE-3 head")
    heads, hidden = merged["num_attention_heads"], merged["hidden_size"]
    whole = isinstance(heads, int) and isinstance(hidden, int) and heads > 0
    known = {field.name for field in dataclasses.fields(HeadConfig)} - {"target_layers"}
    return HeadConfig(**{
        "num_key_value_heads": heads,
        "head_dim": hidden // heads if whole else hidden,
        "draft_vocab_size": merged["vocab_size"],
        "target_hidden_size": hidden,
        **{name: value for name, value in merged.items() if name in known and value is not None},
        "rope_theta": _theta_of(merged),
        "target_layers": _target_layers_of(merged)})


def _object(values, name):
    """The object of a key that may be missing or null."""
    value = values.get(name) or {}
    if not isinstance(value, dict):
        raise InvalidInput(f"{name} is no JSON object; take a complete head")
    return value


def _refuse_unknown_kinds(merged):
    """Features of other heads that change what a head computes."""
    for name, default in (("num_hidden_layers", 1), ("hidden_act", "silu"), ("attention_bias", False),
                          ("mlp_bias", False), ("norm_before_fc", False)):
        value = merged.get(name, default)
        if value != default:
            raise InvalidInput(f"{name} is {value!r}, must be {default!r}; such heads are not supported")
    use = _object(merged, "eagle_config").get("use_aux_hidden_state", True)
    if not use:
        raise InvalidInput("use_aux_hidden_state is false: a head of one hidden state is EAGLE-2's or "
                           "EAGLE-1's; take an EAGLE-3 head")


def _theta_of(merged):
    """rope_theta: beside the other keys, or in transformers' rope_parameters."""
    parameters = _object(merged, "rope_parameters") or _object(merged, "rope_scaling")
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if kind != "default":
        raise InvalidInput(f"the RoPE scaling is {kind!r}, must be none; such heads are not supported")
    return merged.get("rope_theta") or parameters.get("rope_theta") or _DEFAULT_THETA


def _target_layers_of(merged):
    layers = merged.get(_LAYERS) or _object(merged, "eagle_config").get(_LAYERS)
    if not layers:
        return None
    if (not isinstance(layers, list) or len(layers) != 3 or not all(
            type(layer) is int and layer >= 0 for layer in layers) or sorted(layers) != layers):
        raise InvalidInput(f"{_LAYERS} is {layers!r}, must be three layers of the target in ascending order")
    return tuple(layers)
