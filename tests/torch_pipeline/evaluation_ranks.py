"""Runs on each rank of a job: evaluations of a tiny model on 2 stages."""

import random
from typing import NamedTuple

import torch
import torch.distributed as dist
from families import config_of, model_of
from replicated_ranks import REPLICATION
from slimpack.torch import pipeline
from slimpack.torch.pipeline.comparison import Fp64Casts
from slimpack.torch.pipeline.gradients import local
from slimpack.torch.pipeline.random_plan import random_plan

LAYER_BEGIN = [0, 1, 4]


class Case(NamedTuple):
    """lengths: of the evaluated documents. options: of the model's configuration."""

    family: str
    kind: str
    lengths: tuple
    replicas: int = 1
    replication: str = "whole"
    options: dict = {}


def documents_of(lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(3, 97, (n,), generator=generator) for n in lengths]


def model_for(case):
    return model_of(config_of(case.family, **case.options), 1)


class Found(NamedTuple):
    """The findings of a case on a rank. peaks: most bytes kept in an evaluation, in a step of the
    same plan. same_bits: whether two steps between evaluations left the weights that they leave
    alone. left: tensors that an evaluation has left behind."""

    loss: float
    targets: int
    peaks: tuple
    same_bits: bool
    left: list


def evaluate_all(cases):
    """Found by case."""
    with Fp64Casts():
        return [_evaluate(case) for case in cases]


def _evaluate(case):
    plan = random_plan(case.lengths, LAYER_BEGIN, random.Random(3), kind=case.kind,
                       replicas=case.replicas)
    documents = documents_of(case.lengths, 1)
    evaluated, weights = _trained(case, lambda engine: engine.evaluate(plan, documents))
    _, alone = _trained(case, None)
    same_bits = all(map(torch.equal, weights, alone))
    (first, left), *_, (_, peaks) = evaluated
    return Found(first.loss, first.targets, peaks, same_bits, left)


def _trained(case, evaluate):
    """([(what evaluate(engine) returned, what it left)] and at last (None, peaks), weights) of two
    steps with evaluations before, between and after them; None = without."""
    stage = pipeline.Stage.from_model(model_for(case), LAYER_BEGIN, dist.get_rank() % 2,
                                      check=False)
    engine, evaluated = pipeline.Engine(stage, **REPLICATION[case.replication]), []
    optimizer = torch.optim.AdamW(engine.stage.parameters(), lr=1e-2)
    lengths = [20, 50, 3, 9]
    plan = random_plan(lengths, LAYER_BEGIN, random.Random(1), kind=case.kind,
                       replicas=case.replicas, recompute="full")
    for seed in range(2):
        if evaluate is not None:
            evaluated.append((evaluate(engine), _left(engine)))
        result = engine.step(plan, documents_of(lengths, seed))
        engine.update(optimizer, 1.0)
    if evaluate is not None:
        again = engine.evaluate(plan, documents_of(lengths, 1))
        evaluated.append((None, (again.peak_bytes, result.peak_bytes)))
    return evaluated, [local(p.detach()).clone() for p in engine.stage.parameters()]


def _left(engine):
    stage = engine.stage
    gradients = [name for name, p in stage.named_parameters() if p.grad is not None]
    routers = stage.division.routers
    return gradients + ([] if routers is None else routers.take())
