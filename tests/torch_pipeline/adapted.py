"""Tiny models with adapters that PEFT put into them, whose weights are not 0."""

import torch
from families import config_of, model_of
from peft import LoraConfig, get_peft_model

# By family what has an adapter: modules of attention and of MLPs, under the families' own names.
TARGETS = {
    "llama": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    "qwen2": ["q_proj", "k_proj", "v_proj"],  # with biases
    "qwen3": ["q_proj", "v_proj", "up_proj"],
    "mistral": ["k_proj", "down_proj"],
    "gemma2": ["q_proj", "k_proj", "o_proj", "gate_proj"],
    "phi3": ["qkv_proj", "gate_up_proj"],
    "gpt_neox": ["query_key_value", "dense_h_to_4h"],
    "gpt2": ["c_attn", "c_proj", "c_fc"],  # modules with transposed weights
    "olmo2": ["q_proj", "o_proj"],
    "qwen3_moe": ["q_proj", "k_proj", "v_proj", "o_proj"],
    "deepseek_v3": ["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"],
    "gpt_oss": ["q_proj", "v_proj", "o_proj"],
    "olmo_hybrid": ["q_proj", "k_proj", "b_proj", "o_proj"],  # of attention and of layers with a state
    "nemotron_h": ["in_proj", "v_proj", "down_proj"],
}


def lora(family, **settings):
    return LoraConfig(**{"r": 4, "lora_alpha": 6, "target_modules": TARGETS[family],
                         "task_type": "CAUSAL_LM", **settings})


def adapted(family, seed, dtype=torch.float64, **settings):
    """A PeftModel of a tiny model of random weights, lora_B included. settings: of its LoraConfig."""
    return with_adapter(model_of(config_of(family), seed, dtype), family, **settings)


def with_adapter(model, family, **settings):
    """The PeftModel of a model of a family."""
    found = get_peft_model(model, lora(family, **settings))
    with torch.no_grad():
        for parameter in found.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return found
