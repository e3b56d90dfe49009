#!/usr/bin/env python3
"""Trains a model of Hugging Face on conversations of its library datasets: no files in between, the loss counts
what the assistant says, and every conversation counts the same.

    torchrun --nproc-per-node 2 examples/train_on_chats.py chats.jsonl --model Qwen/Qwen3-0.6B --output runs/chats

chats.jsonl has a line {"messages": [{"role": "user", "content": "…"}, …]} for each conversation. The last ones are
held out: the short and the long ones are evaluated by themselves. --model is a folder or a name on the Hub, with a
tokenizer that has a chat template. Each process is a stage of the pipeline.
"""

import argparse
from pathlib import Path

import datasets
import slimpack
import torch
import torch.distributed as dist
from slimpack.torch import from_dataset, pipeline
from transformers import AutoConfig, AutoTokenizer


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chats", help="JSON lines of conversations")
    parser.add_argument("--model", required=True, help="a folder or a Hub name")
    parser.add_argument("--output", required=True, help="of metrics, checkpoints and the model")
    parser.add_argument("--context", type=int, default=2048, help="tokens of a sequence, at most")
    parser.add_argument("--step-tokens", type=int, default=8192)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--held-out", type=int, default=20, help="conversations that are not trained on")
    parser.add_argument("--hardware", default="h100", help="whose figures steps are planned with")
    return parser.parse_args()


def first_alone(make):
    """The result of make(). Rank 0 calls it first, and the others find its work in the cache of datasets."""
    if dist.get_rank() > 0:
        dist.barrier()
    made = make()
    if dist.get_rank() == 0:
        dist.barrier()
    return made


def sources_of(options):
    """The conversations to train on, and those that are held out."""
    rows = datasets.Dataset.from_json(options.chats, cache_dir=str(Path(options.output) / "cache"))
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    end = max(len(rows) - options.held_out, 0)
    return [from_dataset(rows.select(range(*part)), tokenizer) for part in ((0, end), (end, len(rows)))]


def held_out_by_length(source):
    """The shorter and the longer half of documents, by name."""
    order = source.lengths.argsort()
    halves = {"short": order[:len(order) // 2], "long": order[len(order) // 2:]}
    return {name: [source.read(i, 0, source.lengths[i]) for i in half] for name, half in halves.items()}


def main():
    options = parse()
    rank, stages = dist.get_rank(), dist.get_world_size()
    trained, held_out = first_alone(lambda: sources_of(options))
    job = slimpack.Job(AutoConfig.from_pretrained(options.model), {"pp": stages}, options.hardware, dtype="fp32",
                       context=options.context, recompute="full", backward="whole", most_merged=1)
    sampler = pipeline.StepSampler(trained.lengths, context=options.context, step_tokens=options.step_tokens)
    stage = pipeline.Stage.from_pretrained(options.model, job.stages_for(sampler.peek()), rank, dtype=torch.float32)
    engine = pipeline.Engine(stage, loss="document")
    optimizer = pipeline.WideAdamW(stage.parameters(), lr=1e-3)
    steps = pipeline.PlannedSteps(engine, job, sampler, trained.read)
    trainer = pipeline.Trainer(engine, optimizer, steps, options.output, held_out=held_out_by_length(held_out))
    trainer.train(options.steps)
    engine.save_pretrained(Path(options.output) / "model")


if __name__ == "__main__":
    pipeline.launch(main)
