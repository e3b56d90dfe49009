"""Runs on each rank of a job: training runs of a tiny model on documents of random tokens."""

import json
import os
import runpy
import sys
import tempfile
import threading
import time
import types
import warnings
from pathlib import Path

import numpy as np
import slimpack
import torch
import torch.distributed as dist
from families import config_of, model_of
from replicated_ranks import REPLICATION
from slimpack.torch import pipeline
from slimpack.torch.pipeline import checkpoints
from transformers import AutoConfig

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


def trainer_of(output, stages, replication="whole", *, dtype=torch.float64, loss="token", lora=None, **options):
    """A Trainer of the model that every rank makes alike. lora: settings of an adapter that it has."""
    world, rank = dist.get_world_size(), dist.get_rank()
    job = job_of(stages, world // stages)
    sampler = pipeline.StepSampler([len(d) for d in DOCUMENTS], context=CONTEXT,
                                   step_tokens=200, seed=5)
    model = model_of(config_of(MODEL, tie_word_embeddings=True), 1, dtype)
    if lora is not None:
        from adapted import with_adapter  # and PEFT, which takes seconds

        model = with_adapter(model, MODEL, **lora)
    stage = pipeline.Stage.from_model(model, job.stages_for(sampler.peek()), rank % stages)
    engine = pipeline.Engine(stage, loss=loss, **REPLICATION[replication])
    kind = torch.optim.AdamW if dtype == torch.float64 else pipeline.WideAdamW
    optimizer = kind(stage.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    steps = pipeline.PlannedSteps(engine, job, sampler, read)
    return pipeline.Trainer(engine, optimizer, steps, output, scheduler=scheduler,
                            on_step=lambda figures: None, on_evaluation=lambda figures: None,
                            **options)


def train(output, stages, until, replication="whole", options=None):
    """Trains. Returns this rank's weights by name."""
    trainer = trainer_of(output, stages, replication, **(options or {}))
    trainer.train(until)
    return weights_of(trainer)


def weights_of(trainer):
    return {name: (p.full_tensor() if sharded_tensor(p) else p).detach().double().numpy().copy()
            for name, p in trainer.engine.stage.model.named_parameters()}


def sharded_tensor(tensor):
    return hasattr(tensor, "full_tensor")


def resume(output, stages, until, replication="whole", options=None):
    return train(output, stages, until, replication, {"resume": True, **(options or {})})


def take_slowly(count):
    """By step of a run on this rank: the documents that it was given and those that were read for
    it, the number of steps whose documents had been read or were being read while it was used, and
    the names of threads that read."""
    reads, threads = [], set()

    def noted(document, begin, end):
        reads.append((document, begin, end))
        threads.add(threading.current_thread().name)
        return read(document, begin, end)

    world, rank = dist.get_world_size(), dist.get_rank()
    job = job_of(world, 1)
    sampler = pipeline.StepSampler([len(d) for d in DOCUMENTS], context=CONTEXT, step_tokens=200)
    stage = pipeline.Stage.from_model(model_of(config_of(MODEL), 1),
                                      job.stages_for(sampler.peek()), rank)
    engine, found, total = pipeline.Engine(stage), [], 0
    for step in pipeline.PlannedSteps(engine, job, sampler, noted).take(count):
        own = list(zip(*(of.tolist() for of in step.drawn[:2]), strict=True))
        total += len(own)
        wanted = total + (1 if len(found) < count - 1 else 0)
        end = time.monotonic() + (10 if step.documents else 0)
        while len(reads) < wanted and time.monotonic() < end:
            time.sleep(0.01)
        found.append((len(step.documents), len(own), len(reads) >= wanted))
        engine.step(step.plan, step.documents)
    return found, sorted(threads), sampler.state_dict()


def train_and_die(output, where):
    """Is killed while the second checkpoint is written."""
    die_while_saving(where)
    return train(output, 2, 4, options={"checkpoint_every": 2})


def die_while_saving(where):
    """Lets the job be killed while the second checkpoint is written: rank 1 in its part, or rank 0
    before the folder gets its name."""
    saves = []

    def dying_save(*arguments, **options):
        saves.append(0)
        if len(saves) == 2 and where == "tensors" and dist.get_rank() == 1:
            os._exit(9)
        real_save(*arguments, **options)
        if len(saves) == 2 and where == "name" and dist.get_rank() == 0:
            os._exit(9)

    real_save, checkpoints.dcp.save = checkpoints.dcp.save, dying_save


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


def train_at_rates(output, stages, count, rates, options):
    """Trains with these learning rates, step by step, a checkpoint after each."""
    trainer = trainer_of(output, stages, checkpoint_every=1, resume=True, **options)
    trainer.scheduler = None
    real, optimizer = trainer.engine.update, trainer.optimizer

    def update(*arguments):
        optimizer.param_groups[0]["lr"] = rates[trainer.done]
        return real(*arguments)

    trainer.engine.update = update
    trainer.train(count)


def train_and_save_infinity(output, stages):
    """Two steps, of which the second makes weights infinite and is saved all the same."""
    trainer = trainer_of(output, stages, checkpoint_every=1)
    trainer.train(1)
    with torch.no_grad():
        next(iter(trainer.engine.stage.parameters())).fill_(float("inf"))
    trainer.done += 1
    trainer._save()


def step_without_targets():
    """(loss, norm, whether the weights stayed, warnings)"""
    trainer = trainer_of(tempfile.mkdtemp(), 2)
    engine, optimizer = trainer.engine, trainer.optimizer
    engine.step(trainer.steps.plan(np.array([6, 9])), [[3] * 6, [4] * 9])
    engine.update(optimizer, 1.0)  # moments, which would go on moving weights
    before = [p.detach().clone() for p in engine.stage.parameters()]
    plan = trainer.steps.plan(np.array([1, 1, 1]))
    result = engine.step(plan, [[3], [4], [5]])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        norm = engine.update(optimizer, 1.0)
    same = all(torch.equal(a, b) for a, b in zip(before, engine.stage.parameters(), strict=True))
    return result.loss, norm, same, [str(warning.message) for warning in caught]


def train_on_short_documents(output):
    """By step the lengths that are trained, of nine documents with a token each and one with three,
    a document a step."""
    trainer = trainer_of(output, 2)
    lengths = [1] * 9 + [3]
    trainer.steps.sampler = pipeline.StepSampler(lengths, context=8, step_tokens=1)
    trainer.steps._read_document = lambda document, begin, end: torch.arange(3 + begin, 3 + end)
    trained = []
    real = trainer.engine.step

    def step(plan, documents):
        trained.append(list(map(int, plan.lengths)))
        return real(plan, documents)

    trainer.engine.step = step
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.train(3)
    return trained


def load_example(file):
    """An example as a module, with the functions that its program has."""
    return types.SimpleNamespace(**runpy.run_path(file, run_name=Path(file).stem))


def recompute_of_example(file, *arguments):
    """The policies of recomputation in steps of an example that trains any model, on two stages."""
    sys.argv = list(map(str, [file, *arguments]))
    example = load_example(file)
    options = example.parse()
    job = example.job_of(AutoConfig.from_pretrained(options.model), 1, options)
    return list(set(job.plan([200, 100, 30]).recompute))


def run_example(file, *arguments):
    sys.argv = list(map(str, [file, *arguments]))
    runpy.run_path(file, run_name="example")["main"]()


def all_lines(output):
    return [json.loads(line) for line in (Path(output) / "metrics.jsonl").read_text().splitlines()]


def lines(output):
    """The lines of steps."""
    return [line for line in all_lines(output) if "loss" in line]


def evaluations(output):
    return [line for line in all_lines(output) if "evaluation_loss" in line]
