"""FSDP2 on packed documents, under torchrun: the peer of run.py. One JSON object from the first rank.

    fsdp.py REQUEST.json

Hugging Face's model with fully_shard around each layer and around all: fp32 parameters, bf16
computation, gradients summed in fp32 with the last pack of a step. Whole documents are packed best-fit
decreasing into rows of the context; packs go to ranks by their cost, the dearest first to the rank that
has least. Attention is a kernel of variable lengths inside each document. Layers are recomputed only if
a step does not fit otherwise. A step is forward and backward of every pack, and the update.
"""

import json
import os
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from gpu_hugging_face import STEPS, WARM_UP, Plain, make_model
from torch_documents import Pack, pack_bfd


class Loss(nn.Module):
    """The summed loss of a pack's tokens: what fully_shard wraps, with the head inside."""

    def __init__(self, model, way):
        super().__init__()
        self.model = model
        self.way = way

    def forward(self, tokens, positions, labels):
        rows = self.model.model(tokens, position_ids=positions, use_cache=False).last_hidden_state[0]
        return self.way.loss(self.model.lm_head, rows, labels)


def packs_of_rank(lengths, context, vocabulary):
    """This rank's packs of random tokens. All ranks have equally many, as all gather every layer for
    each pack: who has fewer gets some of two tokens."""
    generator = torch.Generator().manual_seed(1)
    documents = [torch.randint(vocabulary, (n,), generator=generator) for n in lengths]
    ranks = [[] for _ in range(dist.get_world_size())]
    for pack in sorted(pack_bfd(documents, context), key=lambda p: -p.cost):
        min(ranks, key=lambda packs: sum(p.cost for p in packs)).append(pack)
    own = ranks[dist.get_rank()]
    return own + [Pack([torch.zeros(2, dtype=torch.long)])] * (max(map(len, ranks)) - len(own))


def inputs(pack, config, device):
    """Tokens, positions and labels; the documents' ends go to the attention by the configuration."""
    ends = torch.tensor([0, *pack.lengths]).cumsum(0)
    config.document_ends = ends.to(device, torch.int32)
    config.longest_document = max(pack.lengths)
    tokens = torch.cat(pack.pieces)[None].to(device)
    labels = tokens[0].roll(-1)
    labels[ends[1:] - 1] = -100
    return tokens, torch.cat([torch.arange(n) for n in pack.lengths])[None].to(device), labels


def step(loss, optimizer, packs, targets, device):
    for number, pack in enumerate(packs):
        loss.set_requires_gradient_sync(number + 1 == len(packs))
        # fully_shard takes the mean over the ranks.
        (loss(*inputs(pack, loss.model.config, device)) * (dist.get_world_size() / targets)).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def sharded(request, recomputes):
    """The model over all ranks, and its optimizer."""
    way = Plain()
    model = make_model(request, way)
    model.train()
    if recomputes:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    loss = Loss(model, way)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.model.layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(loss, mp_policy=policy)
    return loss, torch.optim.AdamW(loss.parameters(), fused=True)


def seconds_of_steps(request, recomputes):
    """Returns the slowest rank's seconds of each step after the first ones."""
    device = request["device"]
    loss, optimizer = sharded(request, recomputes)
    packs = packs_of_rank(request["lengths"], request["context"], loss.model.config.vocab_size)
    targets = sum(n - 1 for n in request["lengths"])
    seconds = []
    for _ in range(WARM_UP + STEPS):
        dist.barrier()
        start = time.perf_counter()
        step(loss, optimizer, packs, targets, device)
        if device == "cuda":
            torch.cuda.synchronize()
        took = torch.tensor([time.perf_counter() - start], device=device)
        dist.all_reduce(took, dist.ReduceOp.MAX)
        seconds.append(took.item())
    return seconds[WARM_UP:]


def main():
    request = json.loads(Path(sys.argv[1]).read_text())
    on_gpu = request["device"] == "cuda"
    if on_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if on_gpu else "gloo")
    # Every rank must choose alike, so a run that does not fit ends; run.py starts another one.
    seconds = seconds_of_steps(request, request["recomputes"])
    peak = torch.tensor([torch.cuda.max_memory_allocated() if on_gpu else 0], device=request["device"])
    dist.all_reduce(peak, dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        print(json.dumps({"seconds": statistics.median(seconds), "all_seconds": seconds,
                          "recomputes": request["recomputes"], "peak_bytes": peak.item()}), flush=True)
    dist.barrier()
    os._exit(0)  # threads of Gloo that still run would abort the process at times


if __name__ == "__main__":
    main()
