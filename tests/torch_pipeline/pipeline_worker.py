"""What the processes of a pipeline do in tests."""

import os
import time

import torch
import torch.distributed as dist
from families import config_of, model_of
from slimpack.torch import pipeline
from slimpack.torch.pipeline.comparison import Fp64Casts
from trial import random_case


def join(rank, ranks, port):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)


def engine_of(family, seed, plan, **options):
    """This rank's part of the model that every rank makes alike."""
    model = model_of(config_of(family, **options), seed)
    index = dist.get_rank() % plan.stages
    return pipeline.Engine(pipeline.Stage.from_model(model, plan.layer_begin, index))


def gradients_of(engine):
    return {name: parameter.grad.clone() for name, parameter in engine.stage.model.named_parameters()
            if parameter.grad is not None}


def run_cases(rank, ranks, port, cases, folder, results):
    """Runs each case, (family, seed, settings), twice; each rank writes what came of it."""
    join(rank, ranks, port)
    for number, (family, seed, settings) in enumerate(cases):
        plan, documents = random_case(seed, **settings)
        engine = engine_of(family, seed, plan)
        with Fp64Casts():
            result = engine.step(plan, documents)
            first = gradients_of(engine)
            for parameter in engine.stage.parameters():
                parameter.grad = None
            again = engine.step(plan, documents)
        same_bits = all(torch.equal(gradient, first[name]) for name, gradient in gradients_of(engine).items())
        timeline = engine.timeline()
        norm = engine.clip_grad_norm(1e-3)
        engine.save_pretrained(folder / f"model-{number}")
        torch.save(dict(loss=result.loss, targets=result.targets, same_bits=same_bits and
                        again.loss == result.loss, gradients=first, norm=norm, timeline=timeline,
                        clipped=gradients_of(engine)), folder / f"{number}-{rank}.pt")
    dist.barrier()
    results.put(rank)


def fail(rank, ranks, port, how, results):
    """Rank 1 fails in its second forward pass; the others say how that ended for them, and when."""
    join(rank, ranks, port)
    plan, documents = random_case(3, stages=ranks, replicas=1, kind="sliced")
    engine = engine_of("llama", 3, plan)
    if rank == 1:
        break_second_call(engine.stage, how)
    start = time.monotonic()
    try:
        engine.step(plan, documents)
    except Exception as error:
        results.put((rank, type(error).__name__, str(error), time.monotonic() - start))
    time.sleep(20)  # a process that ends would break the connections by itself


def break_second_call(stage, how):
    real, calls = stage.forward, []

    def forward(*arguments):
        calls.append(0)
        if len(calls) < 2:
            return real(*arguments)
        if how == "kill":
            os._exit(9)
        raise ValueError("no memory for a matrix\nat some place")

    stage.forward = forward


def disagree(rank, ranks, port, results):
    """Rank 1 has another plan."""
    join(rank, ranks, port)
    plan, documents = random_case(3 + rank, stages=ranks, replicas=1)
    engine = engine_of("llama", 3, random_case(3, stages=ranks, replicas=1)[0])
    if rank == 1:
        plan = type(plan).from_json(plan.to_json().replace(
            f'"layer_begin":{str(list(plan.layer_begin)).replace(" ", "")}',
            f'"layer_begin":{str(list(engine.stage.place.layer_begin)).replace(" ", "")}'))
    try:
        engine.step(plan, documents)
    except Exception as error:
        results.put((rank, type(error).__name__, str(error)))
