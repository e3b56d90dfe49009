#!/usr/bin/env python3
"""How far bf16 gradients on a GPU are from those in fp32: PackFlow's, and Hugging Face's own in bf16.

    gpu_gradients.py REQUEST.json     prints one JSON object; bench/gpu starts it

The model has the shape of the request's, but LAYERS layers. Distances are those of the whole gradient
as one vector, relative to Hugging Face's fp32 gradient, each document by itself.
"""

import copy
import json
import os
import random
import sys
import tempfile
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM

LAYERS, LONGEST, TOKENS = 2, 2048, 8192


def make_models(request):
    """Two of the same weights: in fp32, and as from_pretrained gives it in bf16."""
    config = AutoConfig.for_model(**json.loads(Path(request["model"]).read_text()))
    config.num_hidden_layers, config.use_cache = min(LAYERS, config.num_hidden_layers), False
    torch.manual_seed(0)
    exact = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa",
                                             dtype=torch.float32)
    frequencies = exact.model.rotary_emb.inv_freq
    rounded = copy.deepcopy(exact).to(torch.bfloat16)
    rounded.model.rotary_emb.inv_freq = frequencies.clone()  # stays fp32 when a model is loaded
    with torch.no_grad():
        for p, q in zip(exact.parameters(), rounded.parameters()):
            p.copy_(q)
    return exact, rounded


def documents_of(request, vocabulary):
    """Random tokens of the request's lengths, truncated, up to TOKENS in all."""
    draw, documents = random.Random(0), []
    for length in request["lengths"]:
        if sum(map(len, documents)) >= TOKENS:
            break
        documents.append([draw.randrange(vocabulary) for _ in range(min(length, LONGEST))])
    return documents


def gradient_of(model, documents):
    """By parameter, on the CPU in fp32."""
    targets = sum(len(tokens) - 1 for tokens in documents)
    for tokens in documents:
        ids = torch.tensor([tokens], device=model.device)
        logits = model(ids).logits[0, :-1].float()
        loss = torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum")
        (loss / targets).backward()
    return {name: p.grad.float().cpu() for name, p in model.named_parameters()}


def packflow_gradient(request, model, documents):
    os.environ["SLIMPACK_BUILD"] = request["build"]
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "packflow" / "step"))
    from driver import run_driver

    plan = {"planner": "slimpack", "device": request["device"], "recompute": [], "pp": 1, "packs": 6,
            "granularity": 128, "asymmetric": True, "short_first": 0, "taper_packs": 0}
    with tempfile.TemporaryDirectory() as folder:
        out = run_driver(Path(folder), model, documents, plan, "bf16")
    return {name: out["gradient/" + name].float() for name, _ in model.named_parameters()}


def distance(gradient, reference):
    far = sum((gradient[name] - exact).square().sum().item() for name, exact in reference.items())
    return (far / sum(exact.square().sum().item() for exact in reference.values())) ** 0.5


def main():
    request = json.loads(Path(sys.argv[1]).read_text())
    exact, rounded = make_models(request)
    documents = documents_of(request, rounded.config.vocab_size)
    reference = gradient_of(exact.to(request["device"]), documents)
    del exact
    ours = packflow_gradient(request, rounded, documents)
    theirs = gradient_of(rounded.to(request["device"]), documents)
    print(json.dumps({"tokens": sum(map(len, documents)),
                      "packflow": distance(ours, reference),
                      "hugging_face": distance(theirs, reference)}))


if __name__ == "__main__":
    main()
