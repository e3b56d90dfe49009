"""Decoders that are planned but not trained, against transformers: parameters to the last one, those
that a token uses, and FLOPs."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
import transformers
from token_scans import replace_scans
from torch.utils.flop_counter import FlopCounterMode

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SLIMPACK_BUILD", "build/release")).resolve()
PROGRAM = BUILD / "tests" / "cost" / "decoder_program"
MODELS = sorted((ROOT / "models").glob("*.json"))

SIZES = dict(hidden_size=64, intermediate_size=48, num_hidden_layers=5, num_attention_heads=4,
             num_key_value_heads=2, vocab_size=97, max_position_embeddings=512, pad_token_id=0)
SMALL = {
    "gemma": dict(model_type="gemma"),
    "gemma-head-dim": dict(model_type="gemma", head_dim=24, tie_word_embeddings=False),
    "gemma2": dict(model_type="gemma2", sliding_window=64, head_dim=32),
    "gemma2-defaults": dict(model_type="gemma2"),
    "gemma3": dict(model_type="gemma3_text", head_dim=16, sliding_window=32),
    "gemma3-pattern": dict(model_type="gemma3_text", sliding_window_pattern=2, sliding_window=32,
                           attention_bias=True),
    "phi3": dict(model_type="phi3"),
    "phi3-window": dict(model_type="phi3", sliding_window=100),
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

LINEAR = dict(layer_types=["linear_attention"] * 3 + ["full_attention", "linear_attention"])
CONV = dict(layer_types=["conv", "conv", "full_attention", "conv", "full_attention"])
DELTA = dict(linear_key_head_dim=8, linear_value_head_dim=12, linear_num_key_heads=2,
             linear_num_value_heads=4)
CHOSEN = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24)
SHARED = dict(**CHOSEN, shared_expert_intermediate_size=20)
LATENT = dict(kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=12,
              num_key_value_heads=4, n_group=1, topk_group=1)
SCAN = dict(mamba_n_heads=8, mamba_d_head=16, mamba_n_groups=2, mamba_d_state=6,
            mamba_chunk_size=16)
NEMOTRON = dict(model_type="nemotron_h", n_routed_experts=6, num_experts_per_tok=2,
                moe_intermediate_size=24, moe_shared_expert_intermediate_size=20,
                ssm_state_size=6, mamba_num_heads=8, mamba_head_dim=8, n_groups=2, chunk_size=16,
                head_dim=16)
STATES = {
    "qwen3-next": dict(model_type="qwen3_next", head_dim=16, **DELTA, **SHARED),
    "qwen3-next-some-dense": dict(model_type="qwen3_next", head_dim=16, mlp_only_layers=[1],
                                  decoder_sparse_step=2, attention_bias=True, **DELTA, **SHARED),
    "qwen3.5": dict(model_type="qwen3_5_text", head_dim=16, full_attention_interval=2, **DELTA),
    "qwen3.5-moe": dict(model_type="qwen3_5_moe_text", head_dim=16, **LINEAR, **DELTA, **SHARED),
    "qwen3.5-nested": dict(model_type="qwen3_5", text_config=dict(
        SIZES, model_type="qwen3_5_text", head_dim=16, tie_word_embeddings=True, **DELTA)),
    "kimi-linear": dict(model_type="kimi_linear", linear_head_dim=8, linear_num_heads=4,
                        **CHOSEN, **LATENT),
    "kimi-linear-published": dict(model_type="kimi_linear", **CHOSEN, **LATENT,
                                  first_k_dense_replace=2, linear_attn_config=dict(
                                      head_dim=8, num_heads=2, short_conv_kernel_size=3,
                                      full_attn_layers=[3, 5], kda_layers=[1, 2, 4])),
    "bailing": dict(model_type="bailing_hybrid", head_dim=8, layer_group_size=2, **CHOSEN,
                    **LATENT),
    "nemotron-h": dict(**NEMOTRON, hybrid_override_pattern="M*-ME"),
    "nemotron-h-latent": dict(**NEMOTRON, moe_latent_size=10, mlp_bias=True, use_bias=True,
                              layers_block_type=["moe", "linear_attention", "mlp",
                                                 "full_attention", "moe"]),
    "olmo-hybrid": dict(model_type="olmo_hybrid"),
    "olmo-hybrid-sizes": dict(model_type="olmo_hybrid", **LINEAR, **DELTA | dict(
        linear_num_key_heads=4)),
    "granite": dict(model_type="granitemoehybrid", num_local_experts=6, shared_intermediate_size=24,
                    **LINEAR, **SCAN),
    "granite-dense": dict(model_type="granitemoehybrid", num_local_experts=0, **LINEAR, **SCAN),
    "bamba": dict(model_type="bamba", attn_layer_indices=[1, 4], **SCAN, mlp_bias=True),
    "falcon-h1": dict(model_type="falcon_h1", **SCAN, mamba_d_ssm=128, projectors_bias=True),
    "falcon-h1-norm": dict(model_type="falcon_h1", **SCAN, mamba_d_ssm=None, mamba_rms_norm=True),
    "lfm2": dict(model_type="lfm2", full_attn_idxs=[1, 4]),
    "lfm2-exact-width": dict(model_type="lfm2", block_auto_adjust_ff_dim=False, conv_bias=True,
                             **CONV),
    "lfm2-moe": dict(model_type="lfm2_moe", num_dense_layers=1, **CONV, **CHOSEN),
    "lfm3": dict(model_type="lfm3", head_dim=16, sliding_window=32),
    "lfm3-plain": dict(model_type="lfm3", use_sandwich_norm=False, use_attention_gate=False),
    "mamba2": dict(model_type="mamba2", num_heads=8, head_dim=16, state_size=6, n_groups=2,
                   chunk_size=16),
    "jamba": dict(model_type="jamba", num_experts=6, num_experts_per_tok=2, mamba_d_state=6,
                  attn_layer_period=3, attn_layer_offset=1, use_mamba_kernels=False),
    "jamba-dense": dict(model_type="jamba", num_experts=1, mamba_dt_rank=5, mamba_d_state=6,
                        mamba_proj_bias=True, use_mamba_kernels=False),
    "mamba": dict(model_type="mamba", state_size=6, intermediate_size=128),
    "falcon-mamba": dict(model_type="falcon_mamba", state_size=6, time_step_rank=3, use_bias=True,
                         intermediate_size=128),
}
ALL = SMALL | STATES


def figures(path, tokens=1):
    done = subprocess.run([PROGRAM, path, str(tokens)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    parameters, active, linear, attention, states = done.stdout.split()
    return int(parameters), int(active), float(linear), float(attention), float(states)


def read_config(folder, path):
    (folder / "config.json").write_text(path.read_text())
    return transformers.AutoConfig.from_pretrained(folder)


def write_small(folder, name):
    sizes = {} if "text_config" in ALL[name] else SIZES
    (folder / "config.json").write_text(json.dumps({**sizes, **ALL[name]}))
    return folder / "config.json", transformers.AutoConfig.from_pretrained(folder)


def build(config, device="meta"):
    config._experts_implementation = "eager"  # products that torch can count
    with torch.device(device):
        return transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")


def experts_per_token(config):
    return getattr(config.get_text_config(), "num_experts_per_tok", 0) or 0


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


@pytest.mark.parametrize("name", ALL)
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
    _, _, linear, attention, _ = figures(path, 1)
    # Rotary angles are products of a position and the frequencies; torch may count them.
    assert linear + attention == pytest.approx(counter.get_total_flops(), rel=0.01)


@pytest.mark.parametrize("name", STATES)
def test_flops_of_a_token_with_states_are_those_that_torch_counts(tmp_path, name, monkeypatch):
    """Scans are replaced by recurrences whose products torch sees; they give the same logits."""
    path, config = write_small(tmp_path, name)
    model = build(config, "cpu").eval()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0, 0.1)
        ids = torch.arange(1, 20)[None]
        expected = model(input_ids=ids, use_cache=False).logits
        replace_scans(monkeypatch, model)
        torch.testing.assert_close(model(input_ids=ids, use_cache=False).logits, expected,
                                   rtol=1e-3, atol=1e-4 * expected.abs().max().item())
        with FlopCounterMode(display=False) as counter:
            model(input_ids=torch.tensor([[1]]), use_cache=False)
    _, _, linear, attention, states = figures(path, 1)
    assert (states > 0) != ("conv_L_cache" in config.to_dict())
    assert linear + attention + states == pytest.approx(counter.get_total_flops(), rel=0.01)


def windows(config):
    """By layer, its window or None, as transformers' mask functions take them; without the layers
    that have no attention."""
    layers = getattr(config, "layer_types", None) or []
    if "linear_attention" in layers:
        return [None] * layers.count("full_attention")
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
    config = config.get_text_config()
    tokens = min(6000, config.max_position_embeddings)
    matrices = sum(used(config, n, p) for n, p in model.named_parameters()
                   if p.dim() > 1 and ".embed" not in n and not n.endswith("_bias"))
    if config.tie_word_embeddings:
        matrices += config.vocab_size * config.hidden_size
    t = torch.arange(tokens, dtype=torch.float64) + 1
    pairs = sum((t if w is None else t.clamp(max=w)).sum().item() for w in windows(config))
    _, _, linear, attention, _ = figures(path, tokens)
    assert linear == pytest.approx(2 * tokens * matrices, rel=1e-12)
    assert attention == pytest.approx(2 * pair_width(config) * pairs, rel=1e-12)
