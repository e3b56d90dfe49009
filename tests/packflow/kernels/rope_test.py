"""Inverse frequencies of scaled rotary embeddings, as transformers computes them."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
from rope_scalings import ROPE_SCALINGS
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

BUILD = Path(os.environ.get("SLIMPACK_BUILD", "build/release")).resolve()
PROGRAM = BUILD / "tests" / "packflow" / "rope_program"
SIZES = dict(hidden_size=256, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2,
             vocab_size=97, max_position_embeddings=1024)
# Scalings of published models, the last with an example's values of Qwen2.5's model card.
PUBLISHED = {
    "Llama-3.1": (dict(rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0,
                       high_freq_factor=4.0, original_max_position_embeddings=8192), 131072),
    "Llama-3.2": (dict(rope_type="llama3", rope_theta=5e5, factor=32.0, low_freq_factor=1.0,
                       high_freq_factor=4.0, original_max_position_embeddings=8192), 131072),
    "gpt-oss": (dict(rope_type="yarn", rope_theta=15e4, factor=32.0, beta_fast=32.0, beta_slow=1.0,
                     original_max_position_embeddings=4096, truncate=False), 131072),
    "DeepSeek-V3": (dict(rope_type="yarn", rope_theta=1e4, factor=40, beta_fast=32, beta_slow=1,
                         mscale=1.0, mscale_all_dim=1.0,
                         original_max_position_embeddings=4096), 163840),
    "Qwen2.5": (dict(rope_type="yarn", rope_theta=1e6, factor=4.0,
                     original_max_position_embeddings=32768), 32768),
}
CASES = {**{name: (rope, 1024) for name, rope in ROPE_SCALINGS.items()}, **PUBLISHED,
         "none": (dict(rope_type="default", rope_theta=1e4), 1024)}


def rope_of(config, dtype="fp32"):
    done = subprocess.run([PROGRAM, config, dtype], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    factor, *inverse = map(float, done.stdout.split())
    return factor, inverse


@pytest.mark.parametrize("spelling", ["rope_parameters", "rope_scaling"])
@pytest.mark.parametrize("name", CASES)
def test_frequencies_are_those_of_transformers_to_the_bit(tmp_path, name, spelling):
    rope, positions = CASES[name]
    theirs = LlamaRotaryEmbedding(LlamaConfig(**{
        **SIZES, "max_position_embeddings": positions, "rope_parameters": dict(rope)}))
    config = {"model_type": "llama", **SIZES, "max_position_embeddings": positions}
    if spelling == "rope_parameters":
        config[spelling] = rope
    else:
        config[spelling] = {k: v for k, v in rope.items() if k != "rope_theta"}
        config["rope_theta"] = rope["rope_theta"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    factor, inverse = rope_of(tmp_path / "config.json")
    assert factor == theirs.attention_scaling
    assert inverse == theirs.inv_freq.double().tolist()
    # In fp64 the same formulas differ by roundings of fp32 alone.
    factor, inverse = rope_of(tmp_path / "config.json", "fp64")
    assert factor == theirs.attention_scaling
    torch.testing.assert_close(torch.tensor(inverse, dtype=torch.float64), theirs.inv_freq.double(),
                               rtol=3e-6, atol=0)
