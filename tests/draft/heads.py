"""Heads and sequences that are small enough to recount."""

import dataclasses
import json
from types import SimpleNamespace

import torch
from naive_head import NaiveHead
from safetensors.torch import load_file
from slimpack.draft.config import HeadConfig
from slimpack.draft.files import save_head
from slimpack.draft.head import DraftHead
from slimpack.draft.target import Features
from slimpack.draft.unrolled import batch_of

# Heads times head_dim are not the hidden size, so that they are not mistaken for each other.
TINY = HeadConfig(hidden_size=8, intermediate_size=12, num_attention_heads=4, num_key_value_heads=2,
                  head_dim=4, vocab_size=11, draft_vocab_size=6, target_hidden_size=8,
                  rms_norm_eps=1e-5, rope_theta=50.0, target_layers=(1, 2, 3))
VOCABULARY = [0, 2, 3, 5, 9, 10]
KINDS = {
    "eagle3": {},
    "norm-before-residual": {"norm_before_residual": True},
    "eagle3.1": {"fc_norm": True, "norm_output": True},
    "of-its-own-width": {"target_hidden_size": 6},
    "one-key-a-head": {"num_key_value_heads": 4, "rope_theta": 10000.0},
}


def tiny_head(seed=0, **values):
    """A random head in fp64, whose norms are not 1."""
    config = dataclasses.replace(TINY, **values)
    torch.manual_seed(seed)
    head = DraftHead(config, own_embedding=config.target_hidden_size != config.hidden_size).double()
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_(torch.randn_like(parameter) * (0.5 if parameter.ndim > 1 else 0.2))
            if parameter.ndim == 1:
                parameter += 1
    head.set_vocabulary(VOCABULARY[:config.draft_vocab_size])
    return head


def tiny_target(head, seed=1):
    """A target as the loss needs it: random embeddings and lm_head."""
    generator = torch.Generator().manual_seed(seed)
    shape = head.config.vocab_size, head.config.target_hidden_size
    return SimpleNamespace(
        embedding_VE=torch.randn(shape, generator=generator, dtype=torch.float64),
        head_VE=torch.randn(shape, generator=generator, dtype=torch.float64))


def tiny_batch(head, target, lengths, firsts=None, seed=2):
    """(sequences, features, their Batch) with random tokens and hidden states."""
    generator = torch.Generator().manual_seed(seed)
    width, vocabulary = head.config.target_hidden_size, head.config.vocab_size

    def random(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    sequences, features = [], []
    for length, first in zip(lengths, firsts or [0] * len(lengths)):
        tokens = torch.randint(vocabulary, (length,), generator=generator)
        final = random(length, width)
        sequences.append((tokens, first))
        features.append(Features(random(length, 3 * width), final,
                                 (final @ target.head_VE.T).argmax(-1)))
    return sequences, features, batch_of(sequences, features)


def naive_of(head, target, folder):
    """The naive head of the files that a head is saved as."""
    save_head(head, folder)
    values = json.loads((folder / "config.json").read_text())
    return NaiveHead(load_file(folder / "model.safetensors"), values, target.embedding_VE)
