"""Tiny models of many families: 4 layers, and a window, soft-capping, sinks or experts where the
family has them."""

import torch
from transformers import AutoConfig, AutoModelForCausalLM

BASE = dict(vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=4,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
            pad_token_id=0, bos_token_id=1, eos_token_id=2, tie_word_embeddings=False)
HEADS = dict(head_dim=8)
EXPERTS = dict(num_experts=6, num_local_experts=6, num_experts_per_tok=2, moe_intermediate_size=24)
WINDOW = dict(sliding_window=16)
WINDOWS = dict(sliding_window=16, layer_types=["sliding_attention", "full_attention"] * 2)
NO_DROPOUT = dict(embd_pdrop=0.0, resid_pdrop=0.0, attn_pdrop=0.0)
DECODER = dict(is_decoder=True, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
SHARED = dict(shared_expert_intermediate_size=24)
ROPE = dict(rope_type="default", rope_theta=1e4)
LATENT = dict(kv_lora_rank=16, q_lora_rank=12, qk_rope_head_dim=8, qk_nope_head_dim=8,
              v_head_dim=12, num_key_value_heads=4)
ROUTED = dict(n_routed_experts=8, num_experts_per_tok=2, n_group=2, topk_group=1,
              n_shared_experts=1, moe_intermediate_size=16, first_k_dense_replace=1)

# Families that the runtime promises by name.
NAMED = {
    "llama": HEADS,
    "qwen2": {},
    "qwen3": HEADS,
    "mistral": HEADS | WINDOW,
    "gemma2": HEADS | WINDOWS | dict(query_pre_attn_scalar=8, attn_logit_softcapping=2.0,
                                     tie_word_embeddings=True),
    "gemma3_text": HEADS | WINDOWS | dict(query_pre_attn_scalar=8, tie_word_embeddings=True),
    "phi3": {},
    "gpt_neox": {},
    "granite": dict(logits_scaling=4.0, residual_multiplier=0.5, embedding_multiplier=3.0),
    "olmo2": {},
    "smollm3": {},
    "mixtral": HEADS | EXPERTS,
    "qwen3_moe": HEADS | EXPERTS | dict(decoder_sparse_step=1),
    "olmoe": EXPERTS,
    "glm4_moe": HEADS | ROUTED,
    "deepseek_v3": LATENT | ROUTED,
    "gpt_oss": HEADS | EXPERTS | WINDOWS,
}
OTHERS = {
    "afmoe": HEADS | EXPERTS | WINDOW,
    "apertus": {},
    "arcee": HEADS,
    "aria_text": HEADS | dict(moe_num_experts=6, moe_topk=2, moe_num_shared_experts=1),
    "axk1": LATENT | ROUTED,
    "beam": HEADS | EXPERTS | WINDOWS | dict(n_group=2, topk_group=1,
                                             mlp_layer_types=["dense", "sparse"] * 2),
    "bert": DECODER,
    "bert-generation": DECODER,
    "biogpt": dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, layerdrop=0.0,
                   activation_dropout=0.0),
    "bitnet": {},
    "cohere": {},
    "cohere2": HEADS | WINDOWS,
    "cohere2_moe": HEADS | EXPERTS | WINDOWS,
    "cohere_compass_text": HEADS | WINDOWS | dict(
        rope_parameters=dict(sliding_attention=ROPE, full_attention=ROPE)),
    "ctrl": dict(dff=48, embd_pdrop=0.0, resid_pdrop=0.0),
    "cwm": HEADS | WINDOWS,
    "deepseek_v2": LATENT | ROUTED | dict(topk_method="greedy", head_dim=8),
    "diffllama": HEADS,
    "dots1": HEADS | ROUTED,
    "electra": DECODER | dict(embedding_size=16),
    "ernie": DECODER,
    "ernie4_5": HEADS,
    "ernie4_5_moe": EXPERTS | dict(moe_num_experts=6, moe_k=2, moe_num_shared_experts=1),
    "exaone4": HEADS | WINDOWS,
    "exaone_moe": HEADS | EXPERTS | WINDOWS,
    "flex_olmo": EXPERTS,
    "flint": HEADS | EXPERTS | WINDOWS | SHARED,
    "gemma": HEADS,
    "gemma4_unified_text": HEADS | WINDOWS | dict(global_head_dim=16),
    "glm": HEADS,
    "glm4": HEADS,
    "glm4_moe_lite": LATENT | ROUTED,
    "gpt2": NO_DROPOUT,
    "gpt_bigcode": NO_DROPOUT,
    "granite_swa": HEADS | WINDOWS,
    "granitemoe": EXPERTS,
    "granitemoe_swa": HEADS | EXPERTS | WINDOWS,
    "granitemoeshared": EXPERTS | dict(shared_intermediate_size=24),
    "helium": HEADS,
    "hunyuan_v1_dense": HEADS,
    "hunyuan_v1_moe": HEADS | EXPERTS,
    "hy_v3": HEADS | EXPERTS,
    "hyperclovax": HEADS,
    "jais2": HEADS,
    "jetmoe": EXPERTS | dict(kv_channels=8),
    "kolibri1": HEADS | EXPERTS | WINDOWS | SHARED,
    "laguna": HEADS | EXPERTS | WINDOWS | SHARED,
    "llama4_text": HEADS | EXPERTS | dict(attention_chunk_size=16, no_rope_layers=[1, 1, 0, 1]),
    "mellum": HEADS | EXPERTS | WINDOWS,
    "mimo_v2_flash": HEADS | EXPERTS | WINDOWS | dict(
        v_head_dim=12, swa_head_dim=8, swa_v_head_dim=12, swa_num_attention_heads=4,
        swa_num_key_value_heads=4),
    "minicpm3": LATENT,
    "minimax_m2": HEADS | EXPERTS,
    "ministral": HEADS | WINDOWS,
    "ministral3": HEADS | WINDOW,
    "modernbert-decoder": dict(local_attention=16),
    "nanochat": {},
    "nemotron": HEADS,
    "olmo": {},
    "olmo3": WINDOWS,
    "opt": dict(ffn_dim=48, dropout=0.0, word_embed_proj_dim=16),
    "persimmon": {},
    "phi": dict(resid_pdrop=0.0),
    "phimoe": EXPERTS | dict(router_jitter_noise=0.0, input_jitter_noise=0.0),
    "qwen2_moe": EXPERTS | SHARED | dict(decoder_sparse_step=1),
    "roc_bert": DECODER | dict(pronunciation_vocab_size=97, shape_vocab_size=97),
    "seed_oss": HEADS | dict(attention_dropout=0.0, residual_dropout=0.0),
    "solar_open": HEADS | ROUTED,
    "stablelm": {},
    "starcoder2": WINDOW | dict(residual_dropout=0.0, embedding_dropout=0.0),
    "vaultgemma": HEADS | WINDOWS | dict(query_pre_attn_scalar=8),
    "youtu": LATENT,
}
FAMILIES = NAMED | OTHERS

LINEAR = dict(layer_types=["linear_attention", "full_attention"] * 2)
CONVOLUTIONS = dict(layer_types=["conv", "full_attention"] * 2)
DELTA = LINEAR | dict(linear_key_head_dim=8, linear_value_head_dim=12, linear_num_key_heads=2,
                      linear_num_value_heads=4)
LATENT_EXPERTS = EXPERTS | dict(kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8,
                                v_head_dim=12, num_key_value_heads=4, n_group=1, topk_group=1)
SCAN_HEADS = dict(mamba_n_heads=8, mamba_d_head=8, mamba_n_groups=2, mamba_d_state=6,
                  mamba_expand=2, mamba_chunk_size=16)
SCAN = dict(state_size=6, time_step_rank=4)
# Families whose layers, or some of them, hand on a state.
WITH_STATES = {
    "bailing_hybrid": LINEAR | LATENT_EXPERTS | dict(
        n_group=2, mlp_layer_types=["dense"] + ["sparse"] * 3),
    "bamba": SCAN_HEADS | dict(attn_layer_indices=[1, 3]),  # layers return two values
    "falcon_h1": SCAN_HEADS | HEADS | dict(mamba_d_ssm=64),  # a state and keys in every layer
    "falcon_mamba": SCAN,
    "granitemoehybrid": LINEAR | EXPERTS | SCAN_HEADS | dict(shared_intermediate_size=24),
    "jamba": EXPERTS | dict(mamba_d_state=6, mamba_dt_rank=4, use_mamba_kernels=False,
                            attn_layer_period=2, attn_layer_offset=1),
    "kimi_linear": LINEAR | LATENT_EXPERTS | dict(linear_head_dim=8, linear_num_heads=4,
                                                  mlp_layer_types=["dense", "sparse"] * 2),
    "lfm2": CONVOLUTIONS,
    "lfm2_moe": CONVOLUTIONS | EXPERTS | dict(num_dense_layers=1),
    "lfm3": HEADS | dict(layer_types=["conv", "full_attention", "conv", "sliding_attention"],
                         sliding_window=16),
    "mamba": SCAN,
    "mamba2": dict(num_heads=8, state_size=6, n_groups=2, chunk_size=16, head_dim=8),
    "nemotron_h": HEADS | EXPERTS | dict(  # a layer is a mixer, attention, or an MLP or experts alone
        n_routed_experts=6, moe_shared_expert_intermediate_size=24, ssm_state_size=6,
        mamba_num_heads=8, mamba_head_dim=8, n_groups=2, chunk_size=16, num_hidden_layers=None,
        layers_block_type=["mamba", "attention", "mlp", "moe"]),
    "olmo_hybrid": DELTA | dict(linear_num_key_heads=4),
    "qwen3_5_moe_text": HEADS | DELTA | EXPERTS | SHARED,
    "qwen3_5_text": HEADS | DELTA,
    "qwen3_next": HEADS | DELTA | EXPERTS | SHARED,
}


def config_of(family, **settings):
    chosen = {**BASE, **(FAMILIES | WITH_STATES)[family], **settings}
    return AutoConfig.for_model(
        family, **{name: value for name, value in chosen.items() if value is not None})


def model_of(config, seed, dtype=torch.float64):
    """A model of random weights, in which biases, sinks and norms are not 0 and 1."""
    torch.manual_seed(seed)
    experts = {"experts_implementation": "eager"}  # grouped products have no fp64
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", **experts)
    model = model.to(dtype).train()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model
