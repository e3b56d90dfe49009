#!/usr/bin/env python3
"""Learns which of two answers people prefer, by DPO, in a pipeline of processes.

    torchrun --nproc-per-node 2 examples/dpo.py pairs.jsonl --model HuggingFaceTB/SmolLM2-135M-Instruct \\
        --output runs/dpo

pairs.jsonl has lines as TRL's DPOTrainer takes them: {"prompt": MESSAGES, "chosen": MESSAGES, "rejected": MESSAGES},
where MESSAGES is [{"role": "user", "content": "…"}, …]. --model is a folder or a name on the Hub, with a tokenizer that
has a chat template. Each process is a stage.

1. Forward passes alone give the log-probabilities of all answers, before anything is learned: the reference.
2. DPO's loss is no sum over tokens. So a step has two passes: log-probabilities, then each token's coefficient.
"""

import argparse
import json
import random
from pathlib import Path

import slimpack
import torch
import torch.distributed as dist
from slimpack.torch import losses, pipeline
from transformers import AutoConfig, AutoTokenizer


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", help="JSON lines of pairs")
    parser.add_argument("--model", required=True, help="a folder or a Hub name")
    parser.add_argument("--output", required=True, help="of the model")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--step-pairs", type=int, default=8, help="pairs of a step")
    parser.add_argument("--beta", type=float, default=0.1)
    parser.add_argument("--learning-rate", type=float, default=1e-5)
    parser.add_argument("--hardware", default="h100", help="whose figures steps are planned with")
    return parser.parse_args()


def answer_of(tokenizer, prompt, answer):
    """Token ids of which those of the answer are targets."""
    settings = dict(tokenize=True, return_dict=False)
    begun = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, **settings)
    ids = torch.tensor(tokenizer.apply_chat_template(prompt + answer, **settings))
    return slimpack.LabelledTokens(ids, ids.where(torch.arange(len(ids)) >= len(begun), -100))


def pairs_of(options):
    """[(chosen, rejected)]"""
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    lines = [json.loads(line) for line in Path(options.pairs).read_text().splitlines() if line.strip()]
    return [[answer_of(tokenizer, line["prompt"], line[side]) for side in ("chosen", "rejected")] for line in lines]


def steps_of(pairs, options, epoch):
    """The numbers of the pairs of each step of an epoch."""
    order = random.Random(epoch).sample(range(len(pairs)), len(pairs))
    return [order[i:i + options.step_pairs] for i in range(0, len(order), options.step_pairs)]


def main():
    options = parse()
    pairs, stages = pairs_of(options), dist.get_world_size()
    job = slimpack.Job(AutoConfig.from_pretrained(options.model), {"pp": stages}, options.hardware, dtype="fp32",
                       recompute="full", backward="whole")
    layer_begin = job.stages_for([len(answer) for pair in pairs[:options.step_pairs] for answer in pair])
    stage = pipeline.Stage.from_pretrained(options.model, layer_begin, dtype=torch.float32)
    engine, job = pipeline.Engine(stage), job.with_stages(layer_begin)
    optimizer = pipeline.WideAdamW(stage.parameters(), lr=options.learning_rate)

    def planned(numbers):
        """(plan, answers) of some pairs: the chosen ones, then the rejected ones."""
        answers = [pairs[number][side] for side in (0, 1) for number in numbers]
        return job.plan([len(answer) for answer in answers]), answers

    reference = {}  # by pair and side
    for numbers in steps_of(pairs, options, 0):
        found = engine.logprobs(*planned(numbers))
        reference.update(zip([(number, side) for side in (0, 1) for number in numbers], found, strict=True))
    for epoch in range(options.epochs):
        for numbers in steps_of(pairs, options, epoch):
            count = len(numbers)
            of_step = [reference[number, side] for side in (0, 1) for number in numbers]
            objective = losses.dpo(range(count), range(count, 2 * count), of_step, beta=options.beta)
            result = engine.step_on_logprobs(*planned(numbers), objective)
            engine.update(optimizer, max_norm=1.0)
            if dist.get_rank() == 0:
                print(f"epoch {epoch + 1}  loss {result.loss:.4f}  "
                      + "  ".join(f"{name} {value:.3f}" for name, value in result.metrics.items()), flush=True)
    engine.save_pretrained(Path(options.output) / "model")
    if dist.get_rank() == 0:
        AutoTokenizer.from_pretrained(options.model).save_pretrained(Path(options.output) / "model")


if __name__ == "__main__":
    pipeline.launch(main)
