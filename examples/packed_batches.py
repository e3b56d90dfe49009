#!/usr/bin/env python3
"""Trains a Hugging Face model on packed batches of whole documents, with equal work on every rank.

    slimpack data build --from ~/src --glob '*.py' --out runs/mine/corpus
    python examples/packed_batches.py runs/mine/corpus --model models/demo.json
    torchrun --nproc-per-node 2 examples/packed_batches.py runs/mine/corpus --model models/demo.json

A packed batch has the loss and the gradients of its documents one at a time: attention does not cross
documents, because positions begin anew, and no target does. transformers.Trainer takes the same loader:
derive from it and return the loader from get_train_dataloader.
"""

import argparse
import os

import slimpack
import torch
import torch.distributed as dist
from slimpack.torch import PackedCollator, SlimPackSampler
from transformers import AutoConfig, AutoModelForCausalLM


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help="PREFIX of PREFIX.bin and PREFIX.idx")
    parser.add_argument("--model", required=True, help="config.json")
    parser.add_argument("--max-tokens", type=int, default=2048, help="of a micro-batch")
    parser.add_argument("--step-tokens", type=int, default=8192, help="of a step, on all ranks")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    return parser.parse_args()


class Documents(torch.utils.data.Dataset):
    """Those of a dataset that a micro-batch can hold."""

    def __init__(self, prefix, max_tokens):
        self.dataset = slimpack.IndexedDataset.open(prefix)
        lengths = self.dataset.lengths()
        self.kept = ((lengths > 1) & (lengths <= max_tokens)).nonzero()[0]
        self.lengths = lengths[self.kept]

    def __len__(self):
        return len(self.kept)

    def __getitem__(self, index):
        return {"input_ids": torch.tensor(self.dataset[int(self.kept[index])], dtype=torch.int64)}


def target_count(batches):
    return sum(int((batch["labels"][:, 1:] != -100).sum()) for batch in batches)


def train_step(model, optimizer, batches):
    """One step over the micro-batches of this rank; the mean loss over all ranks' targets."""
    targets = torch.tensor(float(target_count(batches)))
    if dist.is_initialized():
        dist.all_reduce(targets)
    loss_sum = torch.zeros(())
    for batch in batches:
        # The sum over the batch's targets, so that every target of the step counts alike.
        loss = model(input_ids=batch["input_ids"], position_ids=batch["position_ids"],
                     labels=batch["labels"], use_cache=False).loss * target_count([batch]) / targets
        loss.backward()
        loss_sum += loss.detach()
    if dist.is_initialized():
        dist.all_reduce(loss_sum)
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
    optimizer.step()
    optimizer.zero_grad()
    return loss_sum.item()


def main():
    options = parse()
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(options.model))
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.learning_rate)
    documents = Documents(options.dataset, options.max_tokens)
    sampler = SlimPackSampler(documents.lengths, options.max_tokens, step_tokens=options.step_tokens)
    collate = PackedCollator()
    for number, step in zip(range(options.steps), sampler.steps(), strict=False):
        batches = [collate([documents[d] for d in batch]) for batch in step.of_rank[sampler.rank]]
        loss = train_step(model, optimizer, batches)
        if sampler.rank == 0:
            print(f"step {number + 1}: {len(step.documents)} documents, loss {loss:.4f}")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
