#!/usr/bin/env python3
"""Trains a Hugging Face model on packed batches of whole documents, with equal work on every rank.

    slimpack data build --from ~/src --glob '*.py' --out runs/mine/corpus
    python examples/packed_batches.py runs/mine/corpus --model models/demo.json
    torchrun --nproc-per-node 2 examples/packed_batches.py runs/mine/corpus --model models/demo.json

A packed batch has the loss and the gradients of its documents one at a time: attention does not cross
documents, because positions begin anew, and no target does. transformers.Trainer takes the same loader:
derive from it and return the loader from get_train_dataloader, with micro_batches =
args.gradient_accumulation_steps.
"""

import argparse
import itertools
import os

import slimpack
import torch
import torch.distributed as dist
from slimpack.torch import PackedDataLoader, SlimPackSampler
from transformers import AutoConfig, AutoModelForCausalLM


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help="PREFIX of PREFIX.bin and PREFIX.idx")
    parser.add_argument("--model", required=True, help="config.json")
    parser.add_argument("--max-tokens", type=int, default=2048, help="of a micro-batch")
    parser.add_argument("--micro-batches", type=int, default=4, help="of a rank in a step")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    return parser.parse_args()


class Documents(torch.utils.data.Dataset):
    """The documents of a dataset that a micro-batch can hold."""

    def __init__(self, prefix, max_tokens):
        self.dataset = slimpack.IndexedDataset.open(prefix)
        lengths = self.dataset.lengths()
        self.kept = ((lengths > 1) & (lengths <= max_tokens)).nonzero()[0]
        self.lengths = lengths[self.kept]

    def __len__(self):
        return len(self.kept)

    def __getitem__(self, index):
        document = self.dataset.read(int(self.kept[index]), 0, int(self.lengths[index]))
        return {"input_ids": torch.tensor(document.tokens), "labels": torch.tensor(document.labels)}


def target_count(batches):
    return sum(int((batch["labels"][:, 1:] != -100).sum()) for batch in batches)


def steps_of(loader, micro_batches):
    """The micro-batches of each step, epoch after epoch. Every step has as many, on every rank."""
    while True:
        batches = iter(loader)
        while step := list(itertools.islice(batches, micro_batches)):
            yield step


def train_step(model, optimizer, batches):
    """One step over the micro-batches of this rank; the mean loss over all ranks' targets."""
    targets = torch.tensor(float(target_count(batches)))
    if dist.is_initialized():
        dist.all_reduce(targets)
    loss_sum = torch.zeros(())
    for batch in batches:
        # The sum over the batch's targets ÷ those of the step, so that each counts alike. A batch without
        # documents, which a rank has where a step has too few, adds nothing; its own mean would be NaN.
        loss = model(input_ids=batch["input_ids"], position_ids=batch["position_ids"], labels=batch["labels"],
                     use_cache=False, num_items_in_batch=targets).loss
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
    sampler = SlimPackSampler(documents.lengths, options.max_tokens, micro_batches=options.micro_batches)
    loader = PackedDataLoader(documents, sampler)
    steps = steps_of(loader, options.micro_batches)
    for number, batches in enumerate(itertools.islice(steps, options.steps)):
        loss = train_step(model, optimizer, batches)
        if sampler.rank == 0:
            print(f"step {number + 1}: loss {loss:.4f}")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
