"""examples/packed_batches.py: the loss and gradients of one document at a time, on one rank and on two."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from forking import forked_job
from processes import BUILD, environment
from slimpack.torch import PackedCollator, SlimPackSampler

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "packed_batches.py"


class NoUpdate:
    """An optimizer that leaves weights and gradients as they are."""

    def step(self):
        pass

    def zero_grad(self):
        pass


def test_packed_batches_have_the_gradients_of_one_document_at_a_time():
    from transformers import LlamaConfig, LlamaForCausalLM

    spec = importlib.util.spec_from_file_location("packed_batches", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=64, max_position_embeddings=128)).double()
    documents = [torch.randint(64, (n,)) for n in (40, 3, 17, 25, 9, 2, 31)]
    lengths = [len(d) for d in documents]
    targets = sum(n - 1 for n in lengths)

    for d in documents:  # plain training
        (model(input_ids=d[None], labels=d[None]).loss * (len(d) - 1) / targets).backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()

    sampler = SlimPackSampler(lengths, 64, ranks=1, rank=0, step_tokens=sum(lengths))
    batches = [PackedCollator()([{"input_ids": documents[d]} for d in batch]) for batch in sampler]
    assert len(batches) < len(documents)
    example.train_step(model, NoUpdate(), batches)
    gradients = [p.grad for p in model.parameters()]
    for ours, plain in zip(gradients, expected, strict=True):
        assert (ours - plain).abs().max() <= 1e-12 * plain.abs().max()


def losses(text):
    return [float(x) for x in re.findall(r"loss ([0-9.]+)", text)]


def test_two_ranks_train_as_one(tmp_path):
    generator = np.random.default_rng(0)
    for i in range(60):
        text = generator.integers(97, 110, int(generator.integers(20, 400)), dtype=np.uint8)
        (tmp_path / f"{i}.txt").write_bytes(text.tobytes())
    subprocess.run([BUILD / "slimpack", "data", "build", "--from", tmp_path, "--glob", "*.txt", "--out",
                    tmp_path / "corpus"], check=True, capture_output=True)
    arguments = [EXAMPLE, tmp_path / "corpus", "--model", ROOT / "models" / "demo.json", "--max-tokens",
                 "512", "--steps", "4"]
    one = subprocess.run([sys.executable, *arguments, "--micro-batches", "4"], check=True, capture_output=True, text=True,
                         env=environment())
    with forked_job(tmp_path, *[[*arguments, "--micro-batches", "2"]] * 2) as two:
        assert two.codes() == [0, 0], two.text()
    assert len(losses(one.stdout)) == 4 and losses(one.stdout)[-1] < losses(one.stdout)[0]
    assert np.allclose(losses(one.stdout), losses(two.text()), atol=2e-4)
