"""A training loop: steps, updates, metrics and checkpoints."""

import sys
from pathlib import Path

from slimpack import InvalidInput
from slimpack.balancing import require_positive
from slimpack.torch.pipeline.checkpoints import Checkpoints
from slimpack.torch.pipeline.metrics import (
    MetricsFile,
    figures_of,
    measured_timeline,
    step_line,
    write_timeline,
)


def _print_step(figures):
    print(step_line(figures), file=sys.stderr, flush=True)


class Trainer:
    """Trains an engine's stage on PlannedSteps. Every method is called by all ranks.

    output: a folder that all ranks see. It gets metrics.jsonl, timeline.json and checkpoints.
    max_norm: gradients are clipped to this norm of the whole model's.
    scheduler: a learning-rate scheduler of torch.optim, moved on after every step.
    checkpoint_every: steps between checkpoints; 0 = only at the end of `train`.
    keep_last: checkpoints that stay.
    resume: goes on from the newest checkpoint in `output`, where there is one. Without it the
        folder must hold none.
    on_step: called on the first rank with a dict of a step's figures; by default one line on
        stderr.
    """

    def __init__(self, engine, optimizer, steps, output, *, max_norm=1.0, scheduler=None,
                 checkpoint_every=0, keep_last=2, resume=False, on_step=None):
        self.engine, self.optimizer = engine, optimizer
        self.steps, self.scheduler = steps, scheduler
        self._output, self._max_norm, self._every = Path(output), max_norm, checkpoint_every
        self._on_step = on_step or _print_step
        self._metrics = MetricsFile(output)
        self._checkpoints = Checkpoints(self._output / "checkpoints", keep_last)
        self.done = 0  # steps, over all starts
        self._saved = None
        self._begin(resume)

    def train(self, steps):
        """Trains until so many steps are done, over all starts; saves, and writes the last step's
        timeline."""
        require_positive("steps", steps)
        planned = measured = None
        for planned in self.steps.take(max(steps - self.done, 0)):
            measured = self._train(planned)
            if self._every and self.done % self._every == 0:
                self._save(planned)
        if planned is not None:
            if self._saved != self.done:
                self._save(planned)
            if self.engine.groups.rank == 0:
                write_timeline(self._output, planned, measured)

    def _train(self, planned):
        """Trains a step. Returns its Timeline."""
        result = self.engine.step(planned.plan, planned.documents)
        rate = self.optimizer.param_groups[0]["lr"]
        norm = self.engine.update(self.optimizer, self._max_norm)
        if self.scheduler is not None:
            self.scheduler.step()
        self.done += 1
        measured = measured_timeline(self.engine)
        if self.engine.groups.rank == 0:
            figures = figures_of(self.done, planned, result, norm, float(rate), measured)
            self._metrics.add(figures)
            self._on_step(figures)
        return measured

    def _begin(self, resume):
        """Finds out on the first rank where to begin, and loads what is there."""
        groups = self.engine.groups
        with self.engine.watch:
            newest = groups.hand_over(self._newest(resume) if groups.rank == 0 else None)
        if newest:
            state = self._checkpoints.load(self.engine, self.optimizer, newest)
            self.steps.sampler.load_state_dict(state["sampler"])
            if self.scheduler is not None and state["scheduler"] is not None:
                self.scheduler.load_state_dict(state["scheduler"])
                rates = self.scheduler.get_last_lr()
                for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
                    group["lr"] = rate
            self.done = self._saved = newest

    def _newest(self, resume):
        folder = self._checkpoints.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(
                f"cannot write to {folder}: {error.strerror}; give another folder") from None
        newest = max(self._checkpoints.steps(), default=None)
        if newest and not resume:
            raise InvalidInput(
                f"{folder} has checkpoints of another run; give resume=True to go on with it, or "
                "another folder")
        return newest

    def _save(self, planned):
        scheduler = None if self.scheduler is None else self.scheduler.state_dict()
        self._checkpoints.save(self.engine, self.optimizer, self.done, {
            "sampler": self.steps.sampler.state_dict(planned.drawn.cursor), "scheduler": scheduler,
            "layer_begin": list(self.engine.stage.place.layer_begin)})
        self._saved = self.done
