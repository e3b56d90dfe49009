"""Decoders that are planned but not trained, against transformers: parameters to the last one, those
that a token uses, and FLOPs."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SLIMPACK_BUILD", "build/release")).resolve()
PROGRAM = BUILD / "tests" / "cost" / "decoder_program"
MODELS = sorted((ROOT / "models").glob("*.json"))

SIZES = dict(hidden_size=64, intermediate_size=48, num_hidden_layers=5, num_attention_heads=4,
             num_key_value_heads=2, vocab_size=97, max_position_embeddings=512)
SMALL = {
    "gemma": dict(model_type="gemma"),
    "gemma-head-dim": dict(model_type="gemma", head_dim=24, tie_word_embeddings=False),
    "gemma2": dict(model_type="gemma2", sliding_window=64, head_dim=32),
    "gemma2-defaults": dict(model_type="gemma2"),
    "gemma3": dict(model_type="gemma3_text", head_dim=16, sliding_window=32),
    "gemma3-pattern": dict(model_type="gemma3_text", sliding_window_pattern=2, sliding_window=32,
                           attention_bias=True),
    "phi3": dict(model_type="phi3", pad_token_id=0),
    "phi3-window": dict(model_type="phi3", sliding_window=100, pad_token_id=0),
    "mistral-window": dict(model_type="mistral", sliding_window=128),
    "qwen2-window": dict(model_type="qwen2", use_sliding_window=True, sliding_window=50,
                         max_window_layers=3),
    "qwen2-layer-types": dict(model_type="qwen2", use_sliding_window=True, sliding_window=50,
                              layer_types=["full_attention"] * 4 + ["sliding_attention"]),
    "qwen3-window": dict(model_type="qwen3", use_sliding_window=True, sliding_window=50,
                         max_window_layers=1, attention_bias=True, tie_word_embeddings=True),
    "mixtral": dict(model_type="mixtral", num_local_experts=6, num_experts_per_tok=3),
    "mixtral-window": dict(model_type="mixtral", sliding_window=20, head_dim=24),
    "qwen3-moe": dict(model_type="qwen3_moe", num_experts=8, num_experts_per_tok=2,
                      moe_intermediate_size=24, head_dim=24),
    "qwen3-moe-some-dense": dict(model_type="qwen3_moe", num_experts=4, num_experts_per_tok=2,
                                 moe_intermediate_size=24, decoder_sparse_step=2,
                                 mlp_only_layers=[3], attention_bias=True),
    "olmoe": dict(model_type="olmoe", num_experts=8, num_experts_per_tok=3),
    "olmoe-bias": dict(model_type="olmoe", num_experts=4, num_experts_per_tok=1,
                       attention_bias=True),
    "glm4-moe": dict(model_type="glm4_moe", n_routed_experts=8, num_experts_per_tok=2,
                     moe_intermediate_size=24, n_shared_experts=2, use_qk_norm=True,
                     attention_bias=True, head_dim=24),
    "gpt-oss": dict(model_type="gpt_oss", num_local_experts=4, num_experts_per_tok=2, head_dim=16,
                    sliding_window=40),
    "gpt-oss-no-bias": dict(model_type="gpt_oss", num_local_experts=4, num_experts_per_tok=2,
                            attention_bias=False),
    "deepseek-v3": dict(model_type="deepseek_v3", n_routed_experts=8, num_experts_per_tok=2,
                        moe_intermediate_size=24, first_k_dense_replace=2, n_shared_experts=2,
                        q_lora_rank=40, kv_lora_rank=24, qk_nope_head_dim=16, qk_rope_head_dim=8,
                        v_head_dim=12, n_group=2, topk_group=1, num_key_value_heads=4),
    "deepseek-v3-plain-queries": dict(model_type="deepseek_v3", n_routed_experts=8,
                                      num_experts_per_tok=2, moe_intermediate_size=24,
                                      first_k_dense_replace=0, q_lora_rank=None, kv_lora_rank=24,
                                      qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=12,
                                      n_group=1, topk_group=1, attention_bias=True,
                                      num_key_value_heads=4),
}


def figures(path, tokens=1):
    done = subprocess.run([PROGRAM, path, str(tokens)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    parameters, active, linear, attention = done.stdout.split()
    return int(parameters), int(active), float(linear), float(attention)


def read_config(folder, path):
    (folder / "config.json").write_text(path.read_text())
    return transformers.AutoConfig.from_pretrained(folder)


def write_small(folder, name):
    (folder / "config.json").write_text(json.dumps({**SIZES, **SMALL[name]}))
    return folder / "config.json", transformers.AutoConfig.from_pretrained(folder)


def build(config, device="meta"):
    config._experts_implementation = "eager"  # products that torch can count
    with torch.device(device):
        return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")


def experts_per_token(config):
    return getattr(config, "num_experts_per_tok", 0) or 0


def used(config, name, parameter):
    """Elements that a token uses: of stacked experts its share."""
    if ".experts." not in name:
        return parameter.numel()
    return parameter.numel() // parameter.shape[0] * experts_per_token(config)


def assert_same_parameters(path, config, model):
    parameters, active, *_ = figures(path)
    assert parameters == sum(p.numel() for p in model.parameters())
    assert active == sum(used(config, n, p) for n, p in model.named_parameters())


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_models_of_this_repository_have_the_parameters_of_transformers(tmp_path, path):
    config = read_config(tmp_path, path)
    assert_same_parameters(path, config, build(config))


@pytest.mark.parametrize("name", SMALL)
def test_small_models_have_the_parameters_of_transformers(tmp_path, name):
    path, config = write_small(tmp_path, name)
    assert_same_parameters(path, config, build(config))


@pytest.mark.parametrize("name", SMALL)
def test_flops_of_a_token_are_those_that_torch_counts(tmp_path, name):
    """One token is run: attention then has one pair by head and layer, masked or not."""
    path, config = write_small(tmp_path, name)
    model = build(config, "cpu")
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0, 0.1)
        with FlopCounterMode(display=False) as counter:
            model(input_ids=torch.tensor([[1]]), use_cache=False)
    _, _, linear, attention = figures(path, 1)
    # Rotary angles are products of a position and the frequencies; torch may count them.
    assert linear + attention == pytest.approx(counter.get_total_flops(), rel=0.01)


def windows(config):
    """By layer, its window or None, as transformers' mask functions take them."""
    window = getattr(config, "sliding_window", None)
    types = getattr(config, "layer_types", None)
    if config.model_type in ("mistral", "mixtral", "phi3", "qwen3_moe") or not types:
        return [window] * config.num_hidden_layers
    return [window if t == "sliding_attention" else None for t in types]


def pair_width(config):
    """Products by query-key pair: of queries and keys, and of values."""
    heads = config.num_attention_heads
    if config.model_type == "deepseek_v3":
        return heads * (config.qk_nope_head_dim + config.qk_rope_head_dim + config.v_head_dim)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    return 2 * heads * head_dim


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.stem)
def test_flops_of_long_sequences_follow_from_shapes_and_masks(tmp_path, path):
    config = read_config(tmp_path, path)
    model = build(config)
    tokens = min(6000, config.max_position_embeddings)
    matrices = sum(used(config, n, p) for n, p in model.named_parameters()
                   if p.dim() > 1 and "embed_tokens" not in n and not n.endswith("_bias"))
    if config.tie_word_embeddings:
        matrices += config.vocab_size * config.hidden_size
    t = torch.arange(tokens, dtype=torch.float64) + 1
    pairs = sum((t if w is None else t.clamp(max=w)).sum().item() for w in windows(config))
    _, _, linear, attention = figures(path, tokens)
    assert linear == pytest.approx(2 * tokens * matrices, rel=1e-12)
    assert attention == pytest.approx(2 * pair_width(config) * pairs, rel=1e-12)
