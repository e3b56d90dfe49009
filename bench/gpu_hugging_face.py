#!/usr/bin/env python3
"""Hugging Face's model on packed documents: the peer of bench/gpu, which starts it.

    gpu_hugging_face.py REQUEST.json [--tuned]     prints one JSON object: way, card, seconds of a step,
                                                   peak bytes

Whole documents are packed best-fit decreasing into rows of --context tokens; attention is
FlashAttention's variable-length kernel inside each document, so nothing is padded and documents do
not see each other. AdamW is fused. Layers are recomputed only if a step does not fit otherwise. A step
is forward and backward of every pack and the update.

Without --tuned, parameters are fp32 and computed with in bf16 (autocast), attention is FlashAttention-2,
and the loss takes HEAD_ROWS tokens at a time, so that logits fit. Tuned, parameters are bf16, and so are
their gradients and AdamW's moments, which is less exact than SlimPack's fp32; norms, SwiGLU, rope and loss
are Liger's kernels, and attention is the newest implementation that torch can activate. Parts that are not
there are left out; "way" says what was used.
"""

import argparse
import contextlib
import json
import statistics
import sys
import time
from pathlib import Path

import torch
from torch.utils.checkpoint import checkpoint
from torch_documents import pack_bfd
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

WARM_UP, STEPS, HEAD_ROWS = 1, 3, 4096  # a request may ask for other steps


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


class Plain:
    """The model as it comes: fp32 parameters under autocast, the loss in blocks of rows."""

    dtype, way = torch.float32, "packed, as it comes"

    def prepare(self, config, device):
        self.computing = lambda: torch.autocast(device, dtype=torch.bfloat16)

    def loss(self, head, rows, labels):
        return sum(checkpoint(self._block_loss, head, *block, use_reentrant=False)
                   for block in zip(rows.split(HEAD_ROWS), labels.split(HEAD_ROWS)))

    @staticmethod
    def _block_loss(head, rows, labels):
        return torch.nn.functional.cross_entropy(head(rows).float(), labels, reduction="sum")


class Tuned(Plain):
    """bf16, Liger's kernels, the newest attention."""

    dtype = torch.bfloat16

    def prepare(self, config, device):
        self.computing = contextlib.nullcontext
        found = ["bf16"]
        with contextlib.suppress(ImportError):
            from liger_kernel import transformers as liger

            patch = getattr(liger, f"apply_liger_kernel_to_{config.model_type}")
            if device == "cuda":  # its kernels are Triton's
                patch(fused_linear_cross_entropy=False)
                fused = liger.LigerFusedLinearCrossEntropyLoss(reduction="sum")
                self.loss = lambda head, rows, labels: fused(head.weight, rows, labels)
                found.append("Liger")
        found.append(self._activate(config) if device == "cuda" else "plain attention")
        self.way = "packed, tuned: " + ", ".join(found)

    def _activate(self, config):
        """The name of what was activated."""
        if torch.cuda.get_device_capability()[0] == 9:
            sys.path.insert(0, str(Path(__file__).with_name("gpu_run")))
            with contextlib.suppress(Exception):  # there is no library, or none of this shape
                from fa4_library import activate

                self.library = activate(config.head_dim, config.num_attention_heads
                                        // config.num_key_value_heads)
                return "FlashAttention-4"
        for name in ("FA4", "FA3"):
            with contextlib.suppress(Exception):  # its package is missing, or torch does not know it
                torch.nn.attention.activate_flash_attention_impl(name)
                return name.replace("FA", "FlashAttention-")
        return "FlashAttention-2"


def make_model(request, way):
    ALL_ATTENTION_FUNCTIONS.register("documents", document_attention)
    config = AutoConfig.for_model(**json.loads(Path(request["model"]).read_text()))
    way.prepare(config, request["device"])
    torch.manual_seed(0)
    with torch.device(request["device"]):
        model = AutoModelForCausalLM.from_config(config, attn_implementation="documents",
                                                 dtype=way.dtype)
    return model


def step(model, way, optimizer, packs, targets, device):
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
        with way.computing():
            rows = model.model(tokens, position_ids=positions, use_cache=False).last_hidden_state[0]
            loss = way.loss(model.lm_head, rows, labels[0])
        (loss / targets).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def timed_steps(model, way, request, documents):
    """Seconds of each step after the first ones."""
    device = request["device"]
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    packs = pack_bfd(documents, request["context"])
    targets = sum(n - 1 for n in request["lengths"])
    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    seconds = []
    for _ in range(WARM_UP + request.get("steps", STEPS)):
        synchronize()
        start = time.perf_counter()
        step(model, way, optimizer, packs, targets, device)
        synchronize()
        seconds.append(time.perf_counter() - start)
    return seconds[WARM_UP:]


def main():
    parser = argparse.ArgumentParser(description="Steps of Hugging Face's model.")
    parser.add_argument("request", type=Path)
    parser.add_argument("--tuned", action="store_true")
    options = parser.parse_args()
    request = json.loads(options.request.read_text())
    on_gpu = request["device"] == "cuda"
    way = Tuned() if options.tuned else Plain()
    model = make_model(request, way)
    model.train()
    documents = [torch.randint(model.config.vocab_size, (n,)) for n in request["lengths"]]
    recomputes = False
    try:
        seconds = timed_steps(model, way, request, documents)
    except torch.OutOfMemoryError:
        recomputes = True
    if recomputes:  # outside the handler, which would keep the tensors of the failed step
        model.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        model.gradient_checkpointing_enable({"use_reentrant": False})
        seconds = timed_steps(model, way, request, documents)
    print(json.dumps({"way": way.way,
                      "card": torch.cuda.get_device_name() if on_gpu else "CPU",
                      "recomputes": recomputes,
                      "seconds": statistics.median(seconds),
                      "peak_bytes": torch.cuda.max_memory_allocated() if on_gpu else 0}))


if __name__ == "__main__":
    main()
