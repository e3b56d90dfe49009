"""What the processes of a pipeline do in tests."""

import os
import random
import time

import torch
import torch.distributed as dist
from families import config_of, model_of
from slimpack.torch import pipeline
from slimpack.torch.pipeline.comparison import Fp64Casts
from slimpack.torch.pipeline.random_plan import random_plan
from trial import random_case


def join(rank, ranks, port):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank,
                            world_size=ranks)


def engine_of(family, seed, plan, **options):
    """This rank's part of the model that every rank makes alike."""
    model = model_of(config_of(family, **options), seed)
    index = dist.get_rank() % plan.stages
    return pipeline.Engine(pipeline.Stage.from_model(model, plan.layer_begin, index))


def gradients_of(engine):
    parameters = engine.stage.model.named_parameters()
    return {name: parameter.grad.clone() for name, parameter in parameters
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
        same_bits = all(torch.equal(gradient, first[name])
                        for name, gradient in gradients_of(engine).items())
        timeline = engine.timeline()
        norm = engine.clip_grad_norm(1e-3)
        engine.save_pretrained(folder / f"model-{number}")
        torch.save(dict(loss=result.loss, targets=result.targets, same_bits=same_bits and
                        again.loss == result.loss, gradients=first, norm=norm, timeline=timeline,
                        clipped=gradients_of(engine)), folder / f"{number}-{rank}.pt")
    dist.barrier()
    results.put(rank)


def fail(rank, ranks, port, more_ports, results):
    """Three jobs, one after another, that fail: rank 1 has another plan, raises an error, is
    killed. Every rank says how that ended, and after how many seconds."""
    plan, documents = random_case(3, stages=ranks, replicas=1, kind="sliced")
    for how, of_job in zip(("plan", "raise", "kill"), (port, *more_ports), strict=True):
        join(rank, ranks, of_job)
        engine = engine_of("llama", 3, plan)
        given = plan
        if rank == 1 and how == "plan":
            given = random_plan(plan.lengths, plan.layer_begin, random.Random(4))
        elif rank == 1:
            break_second_call(engine.stage, how)
        start = time.monotonic()
        try:
            engine.step(given, documents)
        except Exception as error:
            results.put((how, rank, type(error).__name__, str(error), time.monotonic() - start))
        time.sleep(7)  # a process that ends would break the connections by itself
        dist.destroy_process_group()


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
