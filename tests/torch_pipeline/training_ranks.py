"""Runs on each rank of a job: training runs of a tiny model on documents of random tokens."""

import json
import os
import runpy
import sys
from pathlib import Path

import numpy as np
import slimpack
import torch
import torch.distributed as dist
from families import config_of, model_of
from slimpack.torch import pipeline
from slimpack.torch.pipeline import checkpoints

DOCUMENTS = [np.random.default_rng(i).integers(3, 9, 5 + 37 * i % 90) for i in range(40)]
MODEL = "llama"
CONTEXT = 64
# Sequences of 64 + 26, 5, 64 + 64 + 2, 1 and 64 tokens; in batches of 200 tokens at most, two.
HELD_OUT = [np.random.default_rng(100 + n).integers(3, 9, n) for n in (90, 5, 130, 1, 64)]


def job_of(stages, replicas):
    """Plans cut documents of some dozens of tokens."""
    return slimpack.Job(config_of(MODEL), {"pp": stages, "dp": replicas}, "h100", memory_cap="none",
                        granularity=8, recompute="full", backward="whole", most_merged=1)


def read(document, begin, end):
    return torch.from_numpy(DOCUMENTS[document][begin:end])


def with_held_out(every):
    """Options of a Trainer that evaluates HELD_OUT."""
    return {"held_out": ([len(d) for d in HELD_OUT], read_held_out), "evaluate_every": every}


def read_held_out(document, begin, end):
    return torch.from_numpy(HELD_OUT[document][begin:end])


def trainer_of(output, stages, sharded=False, **options):
    """A Trainer of the model that every rank makes alike."""
    world, rank = dist.get_world_size(), dist.get_rank()
    job = job_of(stages, world // stages)
    sampler = pipeline.StepSampler([len(d) for d in DOCUMENTS], context=CONTEXT,
                                   step_tokens=200, seed=5)
    stage = pipeline.Stage.from_model(model_of(config_of(MODEL, tie_word_embeddings=True), 1),
                                      job.stages_for(sampler.peek()), rank % stages)
    engine = pipeline.Engine(stage, shard_replicas=sharded)
    optimizer = torch.optim.AdamW(stage.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    steps = pipeline.PlannedSteps(engine, job, sampler, read)
    return pipeline.Trainer(engine, optimizer, steps, output, scheduler=scheduler,
                            on_step=lambda figures: None, on_evaluation=lambda figures: None,
                            **options)


def train(output, stages, until, sharded=False, options=None):
    """Trains. Returns this rank's weights by name."""
    trainer = trainer_of(output, stages, sharded, **(options or {}))
    trainer.train(until)
    return weights_of(trainer)


def weights_of(trainer):
    return {name: (p.full_tensor() if sharded_tensor(p) else p).detach().numpy().copy()
            for name, p in trainer.engine.stage.model.named_parameters()}


def sharded_tensor(tensor):
    return hasattr(tensor, "full_tensor")


def resume(output, stages, until, sharded=False, options=None):
    return train(output, stages, until, sharded, {"resume": True, **(options or {})})


def train_and_die(output, where):
    """Is killed while the second checkpoint is written: rank 1 in its part, or rank 0 before the
    folder gets its name."""
    saves = []

    def dying_save(*arguments, **options):
        saves.append(0)
        if len(saves) == 2 and where == "tensors" and dist.get_rank() == 1:
            os._exit(9)
        real_save(*arguments, **options)
        if len(saves) == 2 and where == "name" and dist.get_rank() == 0:
            os._exit(9)

    real_save, checkpoints.dcp.save = checkpoints.dcp.save, dying_save
    return train(output, 2, 4, options={"checkpoint_every": 2})


def fail_to_plan(output):
    """Rank 0 cannot plan the third step."""
    trainer = trainer_of(output, 2)
    real, calls = trainer.steps._job.plan, []

    def plan(lengths):
        calls.append(0)
        if len(calls) == 3:
            raise slimpack.InvalidInput("no plan fits")
        return real(lengths)

    trainer.steps._job = type("Job", (), {"plan": staticmethod(plan)})
    trainer.train(4)


def diverge(output):
    trainer = trainer_of(output, 2)
    with torch.no_grad():
        for parameter in trainer.engine.stage.parameters():
            parameter.mul_(float("inf"))
    trainer.train(2)


def run_example(file, *arguments):
    sys.argv = list(map(str, [file, *arguments]))
    runpy.run_path(file, run_name="example")["main"]()


def all_lines(output):
    return [json.loads(line) for line in (Path(output) / "metrics.jsonl").read_text().splitlines()]


def lines(output):
    """Those of steps."""
    return [line for line in all_lines(output) if "loss" in line]


def evaluations(output):
    return [line for line in all_lines(output) if "evaluation_loss" in line]
