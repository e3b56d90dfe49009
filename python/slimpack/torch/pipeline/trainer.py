"""A training loop: steps, updates, evaluations, metrics and checkpoints."""

import contextlib
import math
import sys
import time
from pathlib import Path

from slimpack import InvalidInput
from slimpack.balancing import require_positive
from slimpack.torch.pipeline.checkpoints import Checkpoints
from slimpack.torch.pipeline.ending import Ending, Stopped
from slimpack.torch.pipeline.evaluation import held_out_sets
from slimpack.torch.pipeline.failure import Diverged, RunFailed
from slimpack.torch.pipeline.logs import log_names, logging_to, settings_of
from slimpack.torch.pipeline.metrics import (
    MetricsFile,
    Place,
    columns_of_stderr,
    evaluation_line,
    figures_of,
    measured_timeline,
    step_line,
    write_step_files,
)
from slimpack.torch.pipeline.output_lock import lock_output


class Trainer:
    """Trains an engine's stage on PlannedSteps. Every method is called by all ranks.

    output: a folder that all ranks see. It gets metrics.jsonl, checkpoints, and the last step's
        timeline.json, plan.json and measured.json, of which `slimpack report` makes a page. No
        other run can use the folder while this object lives.
    max_norm: gradients are clipped to this norm of the whole model's.
    scheduler: a learning-rate scheduler of torch.optim, moved on after every step.
    checkpoint_every: steps between checkpoints; 0 = only at the end of `train`.
    keep_last: checkpoints that stay. While a run is not done, the one before the newest stays, too:
        only another step shows that training goes on from the newest.
    resume: goes on from the newest sound checkpoint in `output`, where there is one. Without it the
        folder must hold none.
    held_out: documents whose loss is evaluated before the first step and at the end: a list of
        their token ids or LabelledTokens, or (lengths, read) as StepSampler and PlannedSteps take
        them; or several such sets by name, {"code": …, "chats": …}.
    evaluate_every: steps between further evaluations; 0 = none.
    on_step, on_evaluation: called on the first rank with a dict, the figures of a line of
        metrics.jsonl; by default one line on stderr.
    log: programs that show the metrics while a run goes on: "wandb" or "tensorboard", or both in a
        list. Trouble with one costs a warning (docs/metrics.md).
    """

    def __init__(self, engine, optimizer, steps, output, *, max_norm=1.0, scheduler=None,
                 checkpoint_every=0, keep_last=2, resume=False, held_out=None, evaluate_every=0,
                 on_step=None, on_evaluation=None, log=()):
        self.engine, self.optimizer = engine, optimizer
        self.steps, self.scheduler = steps, scheduler
        self._output, self._max_norm, self._every = Path(output), max_norm, checkpoint_every
        self._on_step, self._on_evaluation = on_step, on_evaluation
        self._held_out = held_out_sets(held_out, steps.sampler)
        self._evaluate_every = evaluate_every
        self._metrics, self._log = MetricsFile(output), log_names(log)
        require_positive("keep_last", keep_last)
        self._keep_last = keep_last
        self._checkpoints = Checkpoints(self._output / "checkpoints", max(keep_last, 2))
        self.done = self.tokens = 0  # steps and their tokens, over all starts
        self._saved = self._evaluated = None  # steps done then
        self._last = None  # the last step of this start: its PlannedStep, its Timeline
        self._lock = lock_output(engine, self._output, self._tell)
        try:
            self._begin(resume)
        except BaseException:
            self._lock = None  # a traceback may keep this object alive
            raise

    def train(self, steps, *, max_tokens=None, max_seconds=None):
        """Trains until so many steps are done, over all starts, or until a limit is reached. Then
        evaluates, saves, and writes the last step's timeline.

        max_tokens: of all steps, over all starts. max_seconds: from this call on; one step is
            trained in any case.

        SIGTERM or SIGINT on a rank stops all ranks after their step; they save, too. Returns
        "done", "limit" or "stopped". After SIGINT it raises KeyboardInterrupt instead.
        """
        stopped = None
        self._last = None
        settings = settings_of(self.steps, self.optimizer, self.engine, self._max_norm)
        with logging_to(self._log, self.engine, self._output, settings, self._tell), \
                Ending(self.engine, self.done, steps, max_tokens, max_seconds) as ending:
            try:
                self._train_until(ending)
            except Stopped as stop:
                stopped = stop
            self._finish(ending, stopped)
        if stopped and stopped.interrupted:
            raise KeyboardInterrupt
        return "stopped" if stopped else "limit" if ending.limit else "done"

    def _train_until(self, ending):
        if not ending.allows_another(self.done, self.tokens):
            return
        for held_out in self._held_out:
            held_out.plan(self.steps)
        self._evaluate_if_due(ending)
        count, tokens = ending.steps - self.done, ending.tokens_left(self.tokens)
        start = time.monotonic_ns()
        with contextlib.closing(self.steps.take(count, tokens)) as ahead:
            while not ending.out_of_time(self.done):
                self._train(next(ahead), ending, start)
                more = ending.allows_another(self.done, self.tokens)
                self._evaluate_if_due(ending)
                if self._every and self.done % self._every == 0:
                    self._save()
                if not more:
                    return
        self._evaluate_if_due(ending)

    def _train(self, planned, ending, start):
        result = self.engine.step(planned.plan, planned.documents)
        rate = self.optimizer.param_groups[0]["lr"]
        try:
            norm = self.engine.update(self.optimizer, self._max_norm)
        except Diverged as error:
            self._end_diverged(error, ending.steps)
        if self.scheduler is not None:
            self.scheduler.step()
        self.done += 1
        self.tokens += int(planned.drawn.lengths.sum())
        measured = measured_timeline(self.engine)
        self._last = planned, measured
        if self.engine.groups.rank == 0:
            figures = figures_of(self.done, planned, result, norm, float(rate), measured)
            place = Place(ending.begun, ending.steps, time.monotonic_ns() - start)
            self._report(figures, self._on_step,
                         lambda: step_line(figures, place, columns_of_stderr()))

    def _evaluate_if_due(self, ending):
        """Evaluates before the first step, every so many steps, and where the run ends."""
        if not self._held_out or not ending.evaluation_due(self.done, self._evaluated,
                                                           self._evaluate_every):
            return
        for held_out in self._held_out:
            loss, *of_loss = held_out.evaluate(self.engine, ending.require_no_stop)
            if not math.isfinite(loss):
                self._end_diverged(Diverged(
                    f"the evaluation loss is {loss}: training has diverged; lower the learning rate",
                    from_sound_weights=False), ending.steps)
            if self.engine.groups.rank == 0:
                figures = held_out.figures(self.done, loss, *of_loss)
                self._report(figures, self._on_evaluation, lambda of=figures: evaluation_line(of))
        self._evaluated = self.done

    def _end_diverged(self, error, steps):
        """Raises the error on all ranks, and says where training can go on. A checkpoint from which no
        step succeeds is set aside, so that resume=True takes the one before."""
        with self.engine.watch:
            text = None
            if self.engine.groups.rank == 0:
                text = str(error)
                if not error.from_sound_weights and self.done == 0:
                    text = text.split(":")[0] + (
                        " before any update: the cause is the weights that training starts from, not "
                        "the learning rate; give others")
                text += f" (after {self.done} of {steps} steps{self._where_to_go_on(error)})"
            text = self.engine.groups.hand_over(text)
        raise RunFailed(text) from None

    def _where_to_go_on(self, error):
        checkpoints, text = self._checkpoints, ""
        if not error.from_sound_weights and (aside := checkpoints.set_aside(self.done)):
            text = f"; {checkpoints.folder_of(self.done).name} leads nowhere and is {aside.name} now"
        if left := checkpoints.steps():
            return f"{text}; resume=True goes on from {checkpoints.folder_of(left[-1])}"
        return text + ("; no checkpoint was saved before, give checkpoint_every" if self.done else "")

    def _report(self, figures, callback, line):
        self._metrics.add(figures)
        if callback is None:
            self._tell(line())
        else:
            callback(figures)

    def _tell(self, line):
        if self.engine.groups.rank == 0:
            print(line, file=sys.stderr, flush=True)

    def _finish(self, ending, stopped):
        """Saves, and says why a run ended before its last step."""
        why = "stopped on request" if stopped else ending.limit
        if self._last is None:
            if stopped:
                self._tell(f"slimpack: {why} before a step was done; nothing saved")
            elif why:
                self._tell(f"slimpack: {why} already after {self.done} steps; raise it to go on")
            return
        if self._saved != self.done:
            self._save()
        if self.done == ending.steps:
            self._prune()
        if self.engine.groups.rank == 0:
            write_step_files(self._output, self.done, *self._last, self.engine.stage.device)
        if why:
            self._tell(f"slimpack: {why} after {self.done} of {ending.steps} steps; "
                       f"{self._checkpoints.folder_of(self.done)} has them, resume=True goes on"
                       f"{'' if stopped else ' where limits allow'}")

    def _begin(self, resume):
        """Loads the newest checkpoint that can be used, where there is one."""
        folder, found = self._checkpoints.folder, None
        if resume:
            found = self._checkpoints.load_newest(self.engine, self.optimizer, self._tell)
            where = (self._checkpoints.folder_of(found[0]) if found else
                     f"no checkpoint in {folder}, training from the beginning")
            self._tell(f"resume: {where}")
        elif self._checkpoints.found(self.engine):
            raise InvalidInput(
                f"{folder} has checkpoints of another run; give resume=True to go on with it, or "
                "another folder")
        if not found:
            return
        self.done, state = found
        self._saved, self.tokens, self._evaluated = self.done, state["tokens"], state["evaluated"]
        self.steps.sampler.load_state_dict(state["sampler"])
        if self.scheduler is not None and state["scheduler"] is not None:
            self.scheduler.load_state_dict(state["scheduler"])
            rates = self.scheduler.get_last_lr()
            for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
                group["lr"] = rate

    def _prune(self):
        """Leaves as many checkpoints as were asked for."""
        if self.engine.groups.rank == 0 and self._saved is not None:
            self._checkpoints.prune(self._saved, self._keep_last)

    def _save(self):
        self._prune()  # steps have gone on from the last one
        planned, _ = self._last
        scheduler = None if self.scheduler is None else self.scheduler.state_dict()
        self._checkpoints.save(self.engine, self.optimizer, self.done, {
            "tokens": self.tokens, "evaluated": self._evaluated,
            "sampler": self.steps.sampler.state_dict(planned.drawn.cursor), "scheduler": scheduler,
            "layer_begin": list(self.engine.stage.place.layer_begin)})
        self._saved = self.done
