#!/usr/bin/env python3
"""Hugging Face's model on packed documents: the peer of bench/gpu, which starts it.

    gpu_hugging_face.py REQUEST.json     prints one JSON object: seconds of a step, peak bytes

Whole documents are packed best-fit decreasing into rows of --context tokens; attention is
FlashAttention-2's variable-length kernel inside each document (torch.nn.attention.varlen), so nothing
is padded and documents do not see each other. Parameters are fp32 and computed with in bf16
(autocast), AdamW is fused; a step is forward and backward of every pack and the update.
"""

import json
import statistics
import sys
import time

import torch
from torch_documents import Pack, pack_bfd
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

WARM_UP, STEPS = 1, 3


def document_attention(module, query, key, value, _mask, scaling=None, **_):
    """[1, heads, tokens, D] → [1, tokens, heads, D], inside the documents of the pack."""
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    ends, longest = module.config.document_ends, module.config.longest_document
    if q.is_cuda:
        from torch.nn.attention.varlen import varlen_attn

        repeats = q.shape[1] // k.shape[1]
        k, v = (x.repeat_interleave(repeats, dim=1) for x in (k, v))
        return varlen_attn(q, k, v, ends, ends, longest, longest, is_causal=True)[None], None
    parts = []
    bounds = ends.tolist()
    for begin, end in zip(bounds, bounds[1:]):
        own = (x[begin:end].transpose(0, 1)[None] for x in (q, k, v))
        out = torch.nn.functional.scaled_dot_product_attention(*own, is_causal=True, enable_gqa=True)
        parts.append(out[0].transpose(0, 1))
    return torch.cat(parts)[None], None


def make_model(request):
    ALL_ATTENTION_FUNCTIONS.register("documents", document_attention)
    with open(request["model"]) as file:
        config = AutoConfig.for_model(**json.load(file))
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="documents")
    return model.to(request["device"], torch.float32)


def step(model, optimizer, packs, targets, device):
    for pack in packs:
        ends = [0]
        for length in pack.lengths:
            ends.append(ends[-1] + length)
        model.config.document_ends = torch.tensor(ends, dtype=torch.int32, device=device)
        model.config.longest_document = max(pack.lengths)
        tokens = torch.cat(pack.pieces)[None].to(device)
        positions = torch.cat([torch.arange(n) for n in pack.lengths])[None].to(device)
        labels = tokens.roll(-1, 1)
        labels[0, model.config.document_ends[1:].long() - 1] = -100
        with torch.autocast(device, dtype=torch.bfloat16):
            logits = model(tokens, position_ids=positions, use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits[0].float(), labels[0], reduction="sum")
        (loss / targets).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def main():
    with open(sys.argv[1]) as file:
        request = json.load(file)
    device = request["device"]
    model = make_model(request)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    documents = [torch.randint(model.config.vocab_size, (n,)) for n in request["lengths"]]
    packs = pack_bfd(documents, request["context"])
    targets = sum(n - 1 for n in request["lengths"])
    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    seconds = []
    for _ in range(WARM_UP + STEPS):
        synchronize()
        start = time.perf_counter()
        step(model, optimizer, packs, targets, device)
        synchronize()
        seconds.append(time.perf_counter() - start)
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    print(json.dumps({"seconds": statistics.median(seconds[WARM_UP:]), "peak_bytes": peak}))


if __name__ == "__main__":
    main()
