"""Models of a user's own: classes that transformers does not have."""

import torch
from torch.utils.checkpoint import checkpoint
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRMSNorm

TINY = dict(vocab_size=61, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
            num_attention_heads=2, num_key_value_heads=2)


class GatedModel(LlamaForCausalLM):
    """Llama whose layers also have a gate."""

    def __init__(self, config):
        super().__init__(config)
        for layer in self.model.layers:
            layer.mlp.register_forward_hook(lambda _, args, output: output * output.sigmoid())


class ShiftedModel(LlamaForCausalLM):
    """Llama whose layers mix each token with the one before it, outside of attention."""

    def __init__(self, config):
        super().__init__(config)
        for layer in self.model.layers:
            layer.mlp.register_forward_pre_hook(
                lambda _, args: (args[0] + torch.roll(args[0], 1, 1) / 2,))


class NormRunAgain(LlamaRMSNorm):
    """Casts to fp32, forward and again in backward."""

    def forward(self, hidden_states):
        return checkpoint(super().forward, hidden_states, use_reentrant=False)


class RecomputingModel(LlamaForCausalLM):
    """Llama that computes a norm of every layer again in backward."""

    def __init__(self, config):
        super().__init__(config)
        for layer in self.model.layers:
            layer.post_attention_layernorm = NormRunAgain(config.hidden_size)


def own(kind):
    return kind(LlamaConfig(**TINY))
