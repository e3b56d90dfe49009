"""Steps of a pipeline's processes in tests."""

import itertools
import os
import random
import signal
import threading
import time

import torch
import torch.distributed as dist
from families import config_of, model_of
from slimpack.torch import pipeline
from slimpack.torch.pipeline.comparison import Fp64Casts, gradients_of
from slimpack.torch.pipeline.failure import FailureWatch
from slimpack.torch.pipeline.groups import Groups
from slimpack.torch.pipeline.random_plan import random_plan
from slimpack.torch.pipeline.stage import Place
from trial import random_case


def engine_of(family, seed, plan, options=None, **settings):
    """This rank's part of the model that every rank makes alike. options: of the Engine; settings:
    of the configuration."""
    model = model_of(config_of(family, **settings), seed)
    index = dist.get_rank() % plan.stages
    stage = pipeline.Stage.from_model(model, plan.layer_begin, index, check=False)
    return pipeline.Engine(stage, **(options or {}))


def close(engine):
    """Closes an engine's connections, so that a process can have many engines."""
    dist.barrier()  # nobody needs them any more
    engine.groups.close()


def arrays_of(engine):
    """By name this rank's gradients, for another process."""
    gradients = gradients_of(engine.stage.model)
    return {name: gradient.numpy().copy() for name, gradient in gradients.items()}


def step(family, seed, settings, case=random_case):
    """(loss, gradients by name) of a random step; settings override what the seed chooses. case: what makes
    (plan, documents) of both."""
    plan, documents = case(seed, **settings)
    engine = engine_of(family, seed, plan)
    with Fp64Casts():
        loss = engine.step(plan, documents).loss
    close(engine)
    return loss, arrays_of(engine)


def balanced_step(family, seed, settings, mode, asks):
    """A step of a model that asks for a load-balancing loss: (loss, that loss, gradients)."""
    plan, documents = random_case(seed, **settings)
    engine = engine_of(family, seed, plan, {"load_balancing": mode}, **asks)
    with Fp64Casts():
        result = engine.step(plan, documents)
    close(engine)
    return result.loss, result.balance_loss, arrays_of(engine)


def run_twice(family, seed, settings, folder):
    """The results of the same step twice, and of calls that may follow it. Writes the model."""
    plan, documents = random_case(seed, **settings)
    engine, losses, gradients = engine_of(family, seed, plan), [], []
    for _ in range(2):
        engine.stage.zero_grad()
        with Fp64Casts():
            losses.append(engine.step(plan, documents).loss)
        gradients.append(arrays_of(engine))
    found = dict(losses=losses, gradients=gradients, timeline=engine.timeline(),
                 norm=engine.clip_grad_norm(1e-3), clipped=arrays_of(engine))
    engine.save_pretrained(folder)
    close(engine)
    return found


def fail(how):
    """A step that fails, since rank 1 raises an error or is killed. Returns the kind of error, its
    message, and after how many seconds it came."""
    ranks = dist.get_world_size()
    plan, documents = random_case(3, stages=ranks, replicas=1, kind="sliced")
    engine = engine_of("llama", 3, plan)
    if dist.get_rank() == 1:
        break_second_call(engine.stage, how)
    start = time.monotonic()
    try:
        engine.step(plan, documents)
    except Exception as error:
        return type(error).__name__, str(error), time.monotonic() - start


def differ(exchange):
    """A step of which rank 1 has another plan. The last rank leaves the exchange of this number
    after all others: they wait in the next one, or have ended and this rank has heard of it.
    Returns the kind of error and its message."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    plan, documents = random_case(3, stages=ranks, replicas=1, kind="sliced")
    engine = engine_of("llama", 3, plan)
    if rank == 1:
        plan = random_plan(plan.lengths, plan.layer_begin, random.Random(4))
    leave_last(engine.groups, exchange, is_last=rank == ranks - 1)
    try:
        engine.step(plan, documents)
    except Exception as error:
        return type(error).__name__, str(error)


def leave_last(groups, exchange, is_last):
    store, others = dist.group.WORLD.get_group_store(), dist.get_world_size() - 1
    real_run, real_abort = groups._waiting.run, groups.abort
    calls, aborted = itertools.count(1), threading.Event()

    def run(call):
        number = next(calls)
        if not is_last and number == exchange + 1:
            store.add("waiting", 1)
        return real_run(late(call) if is_last and number == exchange else call)

    def late(call):
        def run_late():
            result = call()
            while store.add("waiting", 0) < others and not aborted.wait(0.01):
                pass
            return result
        return run_late

    def abort():
        real_abort()
        aborted.set()

    groups._waiting.run, groups.abort = run, abort


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


def lose_a_message():
    """Rank 1 dies in the middle of a message of rank 0. It has stopped before, so the message fills
    the system's buffers, and the rest stays with rank 0. Rank 2 kills rank 1, from which it waits
    for a message itself. Returns what `fail` returns."""
    rank, ranks, store = dist.get_rank(), dist.get_world_size(), dist.group.WORLD.get_group_store()
    groups = Groups(Place(rank, tuple(range(ranks + 1))), tied=False)
    start, message = time.monotonic(), torch.zeros(100_000_000, dtype=torch.uint8)
    try:
        with FailureWatch(groups):
            if rank == 0:
                groups.send(message, 1, "F")
                groups.finish_sending()
            elif rank == 1:
                groups.post_receive(message, 0, "F")
                store.set("stopped", str(os.getpid()))
                os.kill(os.getpid(), signal.SIGSTOP)
            else:
                groups.post_receive(message, 1, "F")
                pid = int(store.get("stopped"))
                time.sleep(1)  # in which rank 0's message fills the buffers between the two
                os.kill(pid, signal.SIGKILL)
                groups.receive("F")
    except Exception as error:
        return type(error).__name__, str(error), time.monotonic() - start


def update_with(which):
    """An update after a step, on rank 1 with an optimizer of other parameters than the stage's."""
    plan, documents = random_case(3, stages=2, replicas=1, kind="sliced")
    engine = engine_of("llama", 3, plan)
    with Fp64Casts():
        engine.step(plan, documents)
    parameters = list(engine.stage.parameters())
    if dist.get_rank() == 1:
        parameters = {"some": parameters[1:], "others": [*parameters, torch.nn.Parameter(torch.ones(2))],
                      "frozen": parameters[1:]}[which]
        if which == "frozen":
            next(engine.stage.parameters()).requires_grad_(False)
    engine.update(torch.optim.AdamW(parameters), 1.0)
