#!/usr/bin/env python3
"""Hugging Face's model on packed documents: the peer of bench/gpu, which starts it.

    gpu_hugging_face.py REQUEST.json     prints one JSON object: card, seconds of a step, peak bytes

Whole documents are packed best-fit decreasing into rows of --context tokens; attention is
FlashAttention-2's variable-length kernel inside each document, so nothing is padded and documents do
not see each other. Parameters are fp32 and computed with in bf16 (autocast), AdamW is fused; the loss
takes HEAD_ROWS tokens at a time, so that logits fit. Layers are recomputed only if a step does not fit
otherwise. A step is forward and backward of every pack and the update.
"""

import json
import statistics
import sys
import time

import torch
from torch.utils.checkpoint import checkpoint
from torch_documents import pack_bfd
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

WARM_UP, STEPS, HEAD_ROWS = 1, 3, 4096


def document_attention(module, query, key, value, _mask, scaling=None, **_):
    """[1, heads, tokens, D] → [1, tokens, heads, D], inside the documents of the pack."""
    # Rotated queries and keys are fp32 under autocast.
    q, k, v = (x[0].transpose(0, 1).to(value.dtype) for x in (query, key, value))
    ends, longest = module.config.document_ends, module.config.longest_document
    if q.is_cuda:
        out, *_ = torch.ops.aten._flash_attention_forward(
            q, k, v, ends, ends, longest, longest, 0.0, True, False, scale=scaling)
        return out[None], None
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


def block_loss(head, rows, labels):
    return torch.nn.functional.cross_entropy(head(rows).float(), labels, reduction="sum")


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
            rows = model.model(tokens, position_ids=positions, use_cache=False).last_hidden_state[0]
            loss = sum(checkpoint(block_loss, model.lm_head, *block, use_reentrant=False)
                       for block in zip(rows.split(HEAD_ROWS), labels[0].split(HEAD_ROWS)))
        (loss / targets).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def timed_steps(model, request, documents):
    """Seconds of each step after the first ones."""
    device = request["device"]
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
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
    return seconds[WARM_UP:]


def main():
    with open(sys.argv[1]) as file:
        request = json.load(file)
    on_gpu = request["device"] == "cuda"
    model = make_model(request)
    model.train()
    documents = [torch.randint(model.config.vocab_size, (n,)) for n in request["lengths"]]
    recomputes = False
    try:
        seconds = timed_steps(model, request, documents)
    except torch.OutOfMemoryError:
        recomputes = True
    if recomputes:  # outside the handler, which would keep the tensors of the failed step
        model.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        model.gradient_checkpointing_enable({"use_reentrant": False})
        seconds = timed_steps(model, request, documents)
    print(json.dumps({"card": torch.cuda.get_device_name() if on_gpu else "CPU",
                      "recomputes": recomputes,
                      "seconds": statistics.median(seconds),
                      "peak_bytes": torch.cuda.max_memory_allocated() if on_gpu else 0}))


if __name__ == "__main__":
    main()
