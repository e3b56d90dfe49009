#!/usr/bin/env python3
"""Trains a decoder written here by SlimPack's plans. Numbers mark what such a module needs.

    slimpack data build --from ~/src --glob '*.py' --out runs/mine/corpus
    torchrun --nproc-per-node 2 examples/train_own_module.py runs/mine/corpus runs/own

Two processes are two stages: the embeddings go to the first one, the norm and the head to the last.
"""

import sys
from pathlib import Path

import slimpack
import slimpack.torch
import torch
import torch.distributed as dist
import transformers
from slimpack.torch import pipeline
from torch import nn
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast


class OwnConfig(transformers.PretrainedConfig):
    model_type = "own"
    # 1. The configuration says how many layers there are, and how many tokens the model knows.
    num_hidden_layers, vocab_size, hidden_size, num_attention_heads = 4, 320, 64, 4


class Layer(nn.Module):
    def __init__(self, config, index):
        super().__init__()
        width = config.hidden_size
        self.config, self.index = config, index
        self.norm, self.query_key_value = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Linear(4 * width, width))

    def forward(self, hidden_states, past_key_values=None):
        """2. A layer takes hidden states, [1, tokens, width], first, and returns the next ones."""
        heads = (*hidden_states.shape[:2], self.config.num_attention_heads, -1)
        parts = self.query_key_value(self.norm(hidden_states)).chunk(3, -1)
        query, key, value = (part.reshape(heads).transpose(1, 2) for part in parts)
        # 3. Keys and values go through the cache, attention through transformers' registry by name.
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.index)
        attend = transformers.AttentionInterface().get_interface(
            self.config._attn_implementation, sdpa_attention_forward)
        attended, _ = attend(self, query, key, value, None)
        hidden_states = hidden_states + self.out(attended.flatten(2))
        return hidden_states + self.mlp(hidden_states)


class Decoder(nn.Module):
    """4. Everything but the head. Its layers are an nn.ModuleList."""

    def __init__(self, config):
        super().__init__()
        self.tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.positions = nn.Embedding(4096, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config, i) for i in range(config.num_hidden_layers))
        self.norm = nn.LayerNorm(config.hidden_size)

    def forward(self, input_ids=None, inputs_embeds=None, position_ids=None, past_key_values=None,
                **_):
        hidden_states = self.tokens(input_ids) if inputs_embeds is None else inputs_embeds
        if position_ids is None:  # a whole document
            position_ids = torch.arange(hidden_states.shape[1])[None]
        hidden_states = hidden_states + self.positions(position_ids)
        for layer in self.layers:
            hidden_states = layer(hidden_states, past_key_values=past_key_values)
        return BaseModelOutputWithPast(last_hidden_state=self.norm(hidden_states))


class OwnModel(transformers.PreTrainedModel):
    config_class = OwnConfig
    _supports_sdpa = True  # 5. Attention is softmax(q k) v and nothing more.

    def __init__(self, config):
        super().__init__(config)
        self.decoder = Decoder(config)
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, **inputs):
        """6. The head's logits of what the decoder returns."""
        return CausalLMOutputWithPast(logits=self.head(self.decoder(**inputs).last_hidden_state))


# 7. transformers finds the model by its configuration.
transformers.AutoConfig.register(OwnConfig.model_type, OwnConfig)
transformers.AutoModelForCausalLM.register(OwnConfig, OwnModel)


def main():
    prefix, output = sys.argv[1], Path(sys.argv[2])
    output.mkdir(parents=True, exist_ok=True)
    cost = slimpack.torch.profile(OwnConfig(), output / "cost.json", context=1024, seconds=3,
                                  keep=True)  # measured at the first start
    job = slimpack.Job(OwnConfig(), {"pp": dist.get_world_size()}, cost=cost, dtype="fp32")
    data = slimpack.IndexedDataset.open(prefix)
    sampler = pipeline.StepSampler(data.lengths(), context=1024, step_tokens=4096)
    torch.manual_seed(0)
    stage = pipeline.Stage.from_model(OwnModel(OwnConfig()), job.stages_for(sampler.peek()),
                                      dist.get_rank())
    engine = pipeline.Engine(stage)
    steps = pipeline.PlannedSteps(engine, job, sampler, data.read)
    optimizer = torch.optim.AdamW(stage.parameters(), lr=1e-3)
    pipeline.Trainer(engine, optimizer, steps, output).train(10)


if __name__ == "__main__":
    pipeline.launch(main)
