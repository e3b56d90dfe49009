"""Model shapes against transformers: same parameter count, and a config.json that it reads back."""

import json
import os
import pathlib
import subprocess

import pytest
import torch
import transformers
from rope_scalings import ROPE_SCALINGS

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SLIMPACK_BUILD", "build/release")).resolve()
PROGRAM = BUILD / "tests" / "spec" / "shape_program"
SMALL = dict(
    hidden_size=64,
    intermediate_size=176,
    num_hidden_layers=3,
    num_attention_heads=4,
    vocab_size=97,
    max_position_embeddings=512,
)
FULL = dict(sliding_window=None)  # Mistral's default is a window of 4096

CASES = {
    "llama": dict(model_type="llama"),
    "llama-gqa-tied": dict(model_type="llama", num_key_value_heads=2, tie_word_embeddings=True),
    "llama-biases": dict(model_type="llama", attention_bias=True, mlp_bias=True),
    "llama-head-dim": dict(model_type="llama", head_dim=24, num_key_value_heads=1),
    "llama-old-rope": dict(model_type="llama", rope_theta=5e5, rope_scaling=None),
    "llama-new-rope": dict(
        model_type="llama", rope_parameters=dict(rope_type="default", rope_theta=5e5)
    ),
    "qwen2": dict(model_type="qwen2", num_key_value_heads=2),
    "qwen2-default-kv-heads": dict(model_type="qwen2", hidden_size=128, num_attention_heads=64),
    "qwen2-tied": dict(model_type="qwen2", num_key_value_heads=4, tie_word_embeddings=True),
    "qwen3": dict(model_type="qwen3", num_key_value_heads=2),
    "qwen3-bias-tied": dict(
        model_type="qwen3",
        num_key_value_heads=2,
        head_dim=32,
        attention_bias=True,
        tie_word_embeddings=True,
    ),
    "mistral": dict(model_type="mistral", num_key_value_heads=2, **FULL),
    "mistral-default-kv-heads": dict(model_type="mistral", num_attention_heads=16, **FULL),
    "mistral-head-dim": dict(model_type="mistral", num_key_value_heads=2, head_dim=32, **FULL),
    "mistral-window": dict(model_type="mistral", num_key_value_heads=2, sliding_window=100),
    "qwen2-window": dict(model_type="qwen2", num_key_value_heads=2, use_sliding_window=True,
                         sliding_window=100, max_window_layers=1),
    "qwen3-window": dict(model_type="qwen3", num_key_value_heads=2, use_sliding_window=True,
                         sliding_window=100,
                         layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
    "mistral-wide-window": dict(model_type="mistral", num_key_value_heads=2),
}


for _name, _rope in ROPE_SCALINGS.items():
    CASES[_name] = dict(model_type="llama", max_position_embeddings=1024,
                        rope_theta=_rope["rope_theta"],
                        rope_scaling={k: v for k, v in _rope.items() if k != "rope_theta"})

OURS = {"llama", "qwen2", "qwen3", "mistral", "mixtral", "qwen3_moe", "olmoe"}
TRANSFORMERS_4 = int(transformers.__version__.split(".")[0]) < 5
if TRANSFORMERS_4:
    del CASES["llama-new-rope"]  # it ignores rope_parameters
    del CASES["yarn-from-its-positions"]  # it needs a factor


def count_parameters(config):
    """Parameters of the model that transformers builds; tied matrices count once."""
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    return sum(p.numel() for p in model.parameters())


def shape_program(path, dtype="float32"):
    done = subprocess.run(
        [PROGRAM, str(path), dtype], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    count, _, text = done.stdout.partition("\n")
    return int(count), text


def read_config(folder, text):
    folder.mkdir()
    (folder / "config.json").write_text(text)
    return transformers.AutoConfig.from_pretrained(folder)


def rope_frequencies(config):
    """Inverse frequencies and the factor of cos and sin."""
    scaling = getattr(config, "rope_scaling" if TRANSFORMERS_4 else "rope_parameters", None)
    rope_type = (scaling or {}).get("rope_type", "default")
    if rope_type == "default":
        return rope_theta(config)
    inverse, factor = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS[rope_type](config, "cpu")
    return inverse.tolist(), factor


def rope_theta(config):
    return config.rope_theta if TRANSFORMERS_4 else config.rope_parameters["rope_theta"]


FIELDS = (
    "model_type hidden_size intermediate_size num_hidden_layers num_attention_heads "
    "num_key_value_heads vocab_size max_position_embeddings hidden_act rms_norm_eps "
    "initializer_range tie_word_embeddings"
).split()
OPTIONAL = "attention_bias mlp_bias".split()


def windows(config):
    """The window of each layer; None where it has none, or one that no sequence outgrows."""
    layers = config.num_hidden_layers
    window = getattr(config, "sliding_window", None)
    if window is None or window >= config.max_position_embeddings:
        return [None] * layers
    types = getattr(config, "layer_types", None) if "qwen" in config.model_type else None
    return [window if t == "sliding_attention" else None
            for t in types or ["sliding_attention"] * layers]


def head_dim(config):
    default = config.hidden_size // config.num_attention_heads
    return getattr(config, "head_dim", None) or default


@pytest.mark.parametrize("name", CASES)
def test_transformers_builds_the_same_model(tmp_path, name):
    original = read_config(tmp_path / "original", json.dumps({**SMALL, **CASES[name]}))
    count, text = shape_program(tmp_path / "original" / "config.json")
    assert count == count_parameters(original)

    written = read_config(tmp_path / "written", text)
    assert count == count_parameters(written)
    for field in FIELDS:
        assert getattr(written, field) == getattr(original, field), field
    for field in OPTIONAL:
        assert getattr(written, field, None) == getattr(original, field, None), field
    assert head_dim(written) == head_dim(original)
    assert rope_theta(written) == rope_theta(original)
    assert rope_frequencies(written) == rope_frequencies(original)
    assert windows(written) == windows(original)
    dtype = getattr(written, "dtype", None) or written.torch_dtype
    assert dtype in (torch.float32, "float32")
    assert type(original).__name__.removesuffix("Config") + "ForCausalLM" in written.architectures


@pytest.mark.parametrize("name", CASES)
def test_a_config_that_transformers_saved_is_read_back(tmp_path, name):
    original = read_config(tmp_path / "original", json.dumps({**SMALL, **CASES[name]}))
    original.save_pretrained(tmp_path / "saved")
    count, _ = shape_program(tmp_path / "saved" / "config.json")
    assert count == count_parameters(original)


def is_trained(path):
    return json.loads(path.read_text())["model_type"] in OURS


@pytest.mark.parametrize("path", [*filter(is_trained, sorted((ROOT / "models").glob("*.json")))],
                         ids=lambda p: p.name)
def test_models_of_this_repository_have_the_same_size(tmp_path, path):
    config = read_config(tmp_path / "model", path.read_text())
    assert shape_program(path)[0] == count_parameters(config)


def test_no_other_architecture_of_transformers_is_taken_for_a_misspelling(tmp_path):
    for model_type in sorted(set(transformers.CONFIG_MAPPING) - OURS):
        config = tmp_path / "config.json"
        config.write_text(json.dumps({**SMALL, "model_type": model_type}))
        done = subprocess.run([PROGRAM, config, "float32"], capture_output=True, text=True)
        assert done.returncode == 2
        assert f'model_type "{model_type}" is not supported' in done.stderr
        assert "did you mean" not in done.stderr
