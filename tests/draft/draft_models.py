"""Small targets, and data for their heads."""

import json
import random

import numpy as np
import pytest
import torch
from slimpack.text.index import write_index
from transformers import LlamaConfig, LlamaForCausalLM

VOCABULARY = 40


def small_config(**values):
    return LlamaConfig(**{**dict(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
        initializer_range=0.06, tie_word_embeddings=False), **values})


def save_target(folder, family=LlamaForCausalLM, config=None):
    torch.manual_seed(0)
    family(config or small_config()).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session", name="target_folder")
def fixture_target_folder(tmp_path_factory):
    return save_target(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="session", name="prompts")
def fixture_prompts():
    r = random.Random(1)
    return [[r.randrange(VOCABULARY) for _ in range(r.randrange(1, 6))] for _ in range(24)]


def write_answer_lines(file, pairs):
    file.write_text("".join(json.dumps({"prompt": p, "answer": a}) + "\n" for p, a in pairs))
    return file


def write_dataset(prefix, documents):
    """PREFIX.bin and PREFIX.idx of token documents."""
    np.concatenate(documents).astype("<u2").tofile(f"{prefix}.bin")
    with open(f"{prefix}.idx", "wb") as out:
        write_index(out, np.dtype("<u2"), np.array([len(ids) for ids in documents], "<i4"))
