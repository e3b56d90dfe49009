#!/usr/bin/env python3
"""Trains a decoder written here by SlimPack's plans. What such a module needs is marked with
numbers.

    slimpack data build --from ~/src --glob '*.py' --out runs/mine/corpus
    torchrun --nproc-per-node 2 examples/train_own_module.py runs/mine/corpus runs/own

Two processes are two stages. The embedding goes to the first one, the norm and the head to the
last. The first start measures a layer for some seconds, so that steps are planned with what it
takes here.
"""

import argparse
from pathlib import Path

import slimpack
import slimpack.torch
import torch
import torch.distributed as dist
from slimpack.torch import pipeline
from torch import nn
from transformers import (
    AttentionInterface,
    AutoConfig,
    AutoModelForCausalLM,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast


class OwnConfig(PretrainedConfig):
    model_type = "own"
    # 1. The configuration says how many layers there are, and how many tokens the model knows.
    num_hidden_layers, vocab_size, hidden_size, num_attention_heads = 4, 320, 64, 4


class Layer(nn.Module):
    def __init__(self, config, index):
        super().__init__()
        width = config.hidden_size
        self.config, self.index = config, index
        self.scaling = (width // config.num_attention_heads) ** -0.5
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Linear(4 * width, width))

    def forward(self, hidden_states, past_key_values=None):
        """2. A layer takes hidden states, [1, tokens, width], first, and returns the next ones."""
        heads = (*hidden_states.shape[:2], self.config.num_attention_heads, -1)
        parts = self.query_key_value(self.norm1(hidden_states)).chunk(3, -1)
        query, key, value = (part.reshape(heads).transpose(1, 2) for part in parts)
        # 3. Keys and values go through the cache, attention through transformers' registry by name.
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.index)
        attend = AttentionInterface().get_interface(self.config._attn_implementation,
                                                    sdpa_attention_forward)
        attended, _ = attend(self, query, key, value, None, scaling=self.scaling)
        hidden_states = hidden_states + self.out(attended.flatten(2))
        return hidden_states + self.mlp(self.norm2(hidden_states))


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


class OwnModel(PreTrainedModel):
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
AutoConfig.register(OwnConfig.model_type, OwnConfig)
AutoModelForCausalLM.register(OwnConfig, OwnModel)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dataset", help="PREFIX of PREFIX.bin and PREFIX.idx")
    parser.add_argument("output", type=Path, help="of metrics and checkpoints")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    cost = options.output / "cost.json"
    if not cost.exists():
        slimpack.torch.profile(OwnConfig(), cost, context=1024, seconds=3,
                               progress=print if dist.get_rank() == 0 else None)
    job = slimpack.Job(OwnConfig(), {"pp": dist.get_world_size()}, cost=cost, dtype="fp32")
    dataset = slimpack.IndexedDataset.open(options.dataset)
    sampler = pipeline.StepSampler(dataset.lengths(), context=1024, step_tokens=4096)
    torch.manual_seed(0)
    stage = pipeline.Stage.from_model(OwnModel(OwnConfig()), job.stages_for(sampler.peek()),
                                      dist.get_rank())
    engine = pipeline.Engine(stage)
    steps = pipeline.PlannedSteps(engine, job, sampler, lambda d, begin, end: dataset[d][begin:end])
    optimizer = torch.optim.AdamW(stage.parameters(), lr=1e-3)
    pipeline.Trainer(engine, optimizer, steps, options.output).train(10)


if __name__ == "__main__":
    pipeline.launch(main)
