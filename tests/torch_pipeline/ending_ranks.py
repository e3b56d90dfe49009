"""Runs on each rank of a job: training runs that end before their last step."""

import os
import signal
from types import SimpleNamespace

import torch.distributed as dist
import training_ranks
from training_ranks import trainer_of, weights_of


def train_within(output, until, limits, options=None):
    """How a run ended. limits: of `train`, by rank."""
    trainer = trainer_of(output, 2, resume=True, **(options or {}))
    return trainer.train(until, **limits[dist.get_rank()])


def train_on(output, until, limits, options):
    """How a run ended within limits, by rank, and then without, and this rank's weights."""
    trainer = trainer_of(output, 2, **options)
    ended = [trainer.train(until, **limits[dist.get_rank()]), trainer.train(until)]
    return ended, weights_of(trainer)


def stop_in_evaluation(output, how):
    """Rank 1 gets a signal while it reads the first document of the evaluation after step 2."""
    steps = SimpleNamespace(done=0)

    def read(document, begin, end):
        if steps.done == 2 and dist.get_rank() == 1 and document == 0:
            os.kill(os.getpid(), how)
        return training_ranks.read_held_out(document, begin, end)

    lengths = [len(d) for d in training_ranks.HELD_OUT]
    return _stopped(trainer_of(output, 2, held_out=(lengths, read), evaluate_every=2), steps)


def stop_in_step(output, how):
    """Rank 1 gets a signal during the second step."""
    trainer = trainer_of(output, 2, **training_ranks.with_held_out(2))
    steps = SimpleNamespace(done=0)
    real = trainer.engine.step

    def step(plan, documents):
        if steps.done == 1 and dist.get_rank() == 1:
            os.kill(os.getpid(), how)
        return real(plan, documents)

    trainer.engine.step = step
    return _stopped(trainer, steps)


def _stopped(trainer, steps):
    """(how `train` ended, whether the handlers of signals are those from before)."""
    handlers, real = _handlers(), trainer.engine.update

    def update(*arguments):
        steps.done += 1
        return real(*arguments)

    trainer.engine.update = update
    try:
        ended = trainer.train(4)
    except KeyboardInterrupt:
        ended = "interrupted"
    return ended, _handlers() == handlers


def _handlers():
    return [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
