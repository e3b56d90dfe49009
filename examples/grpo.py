#!/usr/bin/env python3
"""Reinforcement learning by GRPO, with answers that SlimPack samples itself.

    torchrun --nproc-per-node 2 examples/grpo.py --output runs/grpo

The task: go on counting. A prompt is digits, few or many; the answer counts on from the last one, four digits. The
reward is the share of digits that are right. The model is SmolLM2's shape made small, with random weights.
For a task of your own write other `prompts` and `reward`; for a model of your own give --model, a folder.

A step:
1. The stages write the model, every process loads it and samples its part of the answers.
2. An answer's advantage is how much better its reward is than that of its group, in standard deviations.
3. Prompts and answers, of uneven lengths, are one planned step: the loss counts the answers alone.
"""

import argparse
import random
from pathlib import Path

import slimpack
import torch
import torch.distributed as dist
from slimpack.torch import losses, pipeline
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoModelForCausalLM, LlamaConfig

DIGITS, ANSWER = 10, 4
SMALL = LlamaConfig(vocab_size=DIGITS, hidden_size=96, intermediate_size=256, num_hidden_layers=4, num_attention_heads=6,
                    num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=True, bos_token_id=None,
                    eos_token_id=None)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True, help="of the model")
    parser.add_argument("--model", help="a folder (default: a small one with random weights)")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--prompts", type=int, default=16, help="of a step")
    parser.add_argument("--group", type=int, default=16, help="answers to each prompt")
    parser.add_argument("--warm-up", type=int, default=10, help="steps on right answers before")
    parser.add_argument("--updates", type=int, default=2, help="of the weights by the same answers")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    return parser.parse_args()


def prompts(rng, count):
    """Token ids of so many prompts: most are short, some are long."""
    return [[rng.randrange(DIGITS) for _ in range(min(200, 1 + int(rng.lognormvariate(2.5, 1))))]
            for _ in range(count)]


def right_answer(prompt):
    return [(prompt[-1] + n) % DIGITS for n in range(1, ANSWER + 1)]


def reward(prompt, answer):
    """From 0 to 1."""
    return sum(a == b for a, b in zip(answer, right_answer(prompt), strict=False)) / ANSWER


def small_model(folder):
    """SMALL with random weights. Its tokenizer, which knows digits, lies in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    Tokenizer(WordLevel({str(n): n for n in range(DIGITS)}, "0")).save(str(folder / "tokenizer.json"))
    torch.manual_seed(0)  # the same weights on all ranks
    return AutoModelForCausalLM.from_config(SMALL)


def sampled(folder, asked, seed):
    """The answers to all prompts, on all ranks; each rank samples its part."""
    rank, world = dist.get_rank(), dist.get_world_size()
    generator = slimpack.Generator(folder, dtype="fp32")
    mine = generator.generate_batch(asked[rank::world], max_new_tokens=ANSWER, temperature=1.0,
                                    seed=seed * len(asked) + rank * len(asked) // world)
    of_ranks = [None] * world
    dist.all_gather_object(of_ranks, [made.tokens for made in mine])
    return [of_ranks[n % world][n // world] for n in range(len(asked))]


def advantages_of(rewards, group):
    """By answer, of rewards that come group by group."""
    by_group = torch.tensor(rewards).view(-1, group)
    return ((by_group - by_group.mean(1, keepdim=True)) / (by_group.std(1, keepdim=True) + 1e-4)).flatten()


class Policy:
    """A model in training, on the stages of all ranks. folder: where it is written."""

    def __init__(self, model, folder, options):
        self.folder, self.updates = folder, options.updates
        job = slimpack.Job(model.config, {"pp": dist.get_world_size()}, "h100", dtype="fp32", recompute="full",
                           backward="whole")
        self.stage = pipeline.Stage.from_model(model, job.stages_for([64] * 64))
        self.job = job.with_stages(self.stage.place.layer_begin)
        self.engine = pipeline.Engine(self.stage, loss=losses.PolicyLoss(clip_high=0.28))
        self.optimizer = pipeline.WideAdamW(self.stage.parameters(), lr=options.learning_rate)

    def learn(self, asked, answers, advantages, updates):
        """Updates the weights so many times by answers; their metrics."""
        documents = [torch.tensor(prompt + answer) for prompt, answer in zip(asked, answers, strict=True)]
        labels = [ids.where(torch.arange(len(ids)) >= len(prompt), -100)
                  for ids, prompt in zip(documents, asked, strict=True)]
        plan = self.job.plan([len(ids) for ids in documents])
        extras = {"advantages": [a.expand(len(ids)) for a, ids in zip(advantages, documents, strict=True)],
                  "old_logprobs": self.engine.logprobs(plan, documents, labels)}
        for _ in range(updates):
            result = self.engine.step(plan, documents, labels, extras)
            self.engine.update(self.optimizer, max_norm=1.0)
        return result.metrics


def main():
    options = parse()
    folder = Path(options.output) / "model"
    model = AutoModelForCausalLM.from_pretrained(options.model) if options.model else small_model(folder)
    policy = Policy(model, folder, options)
    for step in range(options.warm_up):  # advantages of 1 make maximum likelihood of right answers
        asked = prompts(random.Random(f"warm up {step}"), options.prompts)
        policy.learn(asked, [right_answer(prompt) for prompt in asked], torch.ones(len(asked)), updates=1)
    for step in range(options.steps):
        asked = [prompt for prompt in prompts(random.Random(step), options.prompts) for _ in range(options.group)]
        policy.engine.save_pretrained(folder)
        answers = sampled(folder, asked, step)
        rewards = [reward(prompt, answer) for prompt, answer in zip(asked, answers, strict=True)]
        metrics = policy.learn(asked, answers, advantages_of(rewards, options.group), options.updates)
        if dist.get_rank() == 0:
            print(f"step {step + 1:3}  reward {sum(rewards) / len(rewards):.3f}  "
                  + "  ".join(f"{name} {value:.3f}" for name, value in metrics.items()), flush=True)
    policy.engine.save_pretrained(folder)


if __name__ == "__main__":
    pipeline.launch(main)
