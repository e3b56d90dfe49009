"""Trains a draft head against a frozen target, and goes on where an earlier start was stopped."""

import contextlib
import dataclasses
import json
import math
import pickle
import signal
from pathlib import Path

import torch

from slimpack import InvalidInput, _planner
from slimpack.draft.acceptance import NOTHING, Acceptance, acceptance_of
from slimpack.draft.config import STEPS
from slimpack.draft.files import save_head
from slimpack.draft.time_left import TimeLeft
from slimpack.draft.unrolled import batch_of, unrolled_loss
from slimpack.torch.pipeline.failure import RunFailed
from slimpack.torch.pipeline.gradients import unusable
from slimpack.torch.pipeline.metrics import MetricsFile
from slimpack.torch.pipeline.steps import StepSampler

_CHECKPOINT = "checkpoint.pt"
_FORMAT, _VERSION = "slimpack-draft", 1


@dataclasses.dataclass(frozen=True)
class Options:
    """How a head is trained. The same options, data and target give the same head.

    steps: of the optimizer; each takes sequences of at most `context` tokens until step_tokens.
    learning_rate: reached after warmup_steps, then a cosine down to 0. clip_norm: of gradients.
    ttt_length: guesses in a row that it learns. held_out_tokens: evaluated, at most. evaluate_every, checkpoint_every: in steps.
    """

    steps: int = 1000
    step_tokens: int = 4096
    context: int = 1024
    learning_rate: float = 1e-4
    warmup_steps: int = 20
    clip_norm: float = 0.5
    ttt_length: int = STEPS
    seed: int = 0
    dtype: str = "fp32"
    held_out_tokens: int = 16384
    evaluate_every: int = 100
    checkpoint_every: int = 100


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Figures of held-out sequences: the training loss, and the guesses that a greedy target would accept."""

    step: int
    loss: float
    tokens: int
    acceptance: Acceptance


class Trainer:
    """Trains `head` in the folder `output`, which gets the head, metrics.jsonl, acceptance.json and
    checkpoint.pt. No other run can use the folder while this object lives.

    held_out: Documents to evaluate. tell: called with each line for people.
    restart: begins anew where the folder holds a checkpoint. Otherwise training goes on from it.
    """

    def __init__(self, head, target, documents, held_out, output, options, tell, restart=False):
        self.head, self.target, self.options = head.to(target.head_VE.device), target, options
        self._documents, self._held_out, self._tell = documents, held_out, tell
        self._output = Path(output)
        _planner.require_writable_folder(self._output, "--out")
        self._lock = _planner.OutputLock(self._output, "--out", tell)
        self._sampler = StepSampler(documents.lengths, context=options.context,
                                    step_tokens=options.step_tokens, seed=options.seed)
        self._optimizer = torch.optim.AdamW(
            [p for p in head.parameters() if p.requires_grad], betas=(0.9, 0.95), weight_decay=0.0)
        self._metrics = MetricsFile(self._output)
        self._held_out_batches = None
        self.done = 0
        if not restart:
            self._resume()
        elif (self._output / "metrics.jsonl").exists():
            (self._output / "metrics.jsonl").unlink()
        (self._output / "metrics.jsonl").touch()

    def train(self):
        """Trains until all steps are done. Returns the last Evaluation, None where SIGINT or SIGTERM has
        ended the run before; then its checkpoint is written, too."""
        last = self.evaluate() if self.done in (0, self.options.steps) else None
        time_left = TimeLeft(self.done, self.options.steps)
        with _Asked() as asked:
            while self.done < self.options.steps and not asked:
                self._step(time_left)
                ends = self.done == self.options.steps
                if ends or self.done % self.options.evaluate_every == 0:
                    last = self.evaluate()
                if ends or asked or self.done % self.options.checkpoint_every == 0:
                    self._save()
        return None if self.done < self.options.steps else last

    def evaluate(self):
        """The Evaluation of the head as it is. Prints a line, and writes acceptance.json."""
        if self._held_out_batches is None:
            self._held_out_batches = list(self._batches_of_held_out())
            if not self._held_out_batches:
                raise InvalidInput("the held-out documents have no sequence of three tokens; give others "
                                   "with --held-out")
        acceptance, losses, tokens = NOTHING, [], 0
        with torch.no_grad(), self._autocast():
            for batch in self._held_out_batches:
                acceptance += acceptance_of(self.head, batch, self.target.embedding_VE)
                loss, _ = unrolled_loss(self.head, batch, self.target, self.options.ttt_length)
                losses.append(loss.item() * len(batch.tokens_T))
                tokens += len(batch.tokens_T)
        evaluation = Evaluation(self.done, sum(losses) / tokens, tokens, acceptance)
        figures = {"step": self.done, "evaluation_loss": evaluation.loss, "evaluation_tokens": tokens,
                   **acceptance_figures(acceptance)}
        self._metrics.add(figures)
        (self._output / "acceptance.json").write_text(json.dumps(figures, indent=2) + "\n")
        self._tell(f"evaluation after step {self.done}: loss {evaluation.loss:.4f}, accepted length "
                   f"{acceptance.accepted_length:.2f}")
        return evaluation

    def _step(self, time_left):
        drawn = self._sampler.next_step()
        batch = self._batch(self._documents, zip(drawn.documents, drawn.begins, drawn.lengths))
        for group in self._optimizer.param_groups:
            group["lr"] = rate_at(self.done, self.options)
        with self._autocast():
            loss, by_step = unrolled_loss(self.head, batch, self.target, self.options.ttt_length)
        if by_step:  # else all sequences are single tokens
            loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.head.parameters(), self.options.clip_norm)
        if not math.isfinite(norm):
            raise RunFailed(f"the gradient is {norm.item()} in step {self.done + 1}; train with a lower "
                            "--learning-rate")
        self._optimizer.step()
        self._optimizer.zero_grad()
        if unusable(self.head.named_parameters()):
            raise RunFailed(f"step {self.done + 1} made weights that are not finite numbers; train with a "
                            "lower --learning-rate")
        self.done += 1
        self._metrics.add({"step": self.done, "loss": loss.item(), "gradient_norm": norm.item(),
                           "loss_by_guess": [of.item() for of in by_step],
                           "learning_rate": self._optimizer.param_groups[0]["lr"],
                           "tokens": len(batch.tokens_T)})
        if self.done % max(self.options.steps // 50, 1) == 0:
            self._tell(f"step {self.done:>{len(str(self.options.steps))}}/{self.options.steps}  loss "
                       f"{loss.item():.4f}  {time_left.after(self.done)}")

    def _batch(self, documents, places):
        """The Batch of (document, begin, length)."""
        sequences = [documents.sequence(*map(int, place)) for place in places]
        layers = self.head.config.target_layers
        with self._autocast():
            return batch_of(sequences, [self.target.features(ids, layers) for ids, _ in sequences])

    def _batches_of_held_out(self):
        """The first sequences, one a batch; they stay in memory."""
        context, left = self.options.context, self.options.held_out_tokens
        for document, length in enumerate(self._held_out.lengths.tolist()):
            for begin in range(0, length, context):
                size = min(context, length - begin, left)
                if size > 2:
                    left -= size
                    yield self._batch(self._held_out, [(document, begin, size)])

    def _autocast(self):
        device = self.target.head_VE.device.type
        return torch.autocast(device, torch.bfloat16, enabled=self.options.dtype == "bf16")

    def _save(self):
        save_head(self.head, self._output)
        partial = self._output / f".{_CHECKPOINT}"
        torch.save({"format": _FORMAT, "version": _VERSION, "step": self.done,
                    "run": self._run(), "head": self.head.state_dict(),
                    "optimizer": self._optimizer.state_dict(),
                    "sampler": self._sampler.state_dict()}, partial)
        partial.replace(self._output / _CHECKPOINT)

    def _run(self):
        """Settings that must be the same when a run goes on."""
        same = dataclasses.asdict(self.options)
        for name in ("evaluate_every", "checkpoint_every", "held_out_tokens"):
            del same[name]
        return {**same, **dataclasses.asdict(self.head.config)}

    def _resume(self):
        file = self._output / _CHECKPOINT
        if not file.exists():
            return
        try:
            state = torch.load(file, map_location=self.target.head_VE.device, weights_only=True)
            if (state["format"], state["version"]) != (_FORMAT, _VERSION):
                raise ValueError("of another version")
            run, here = state["run"], self._run()
        except (OSError, ValueError, RuntimeError, EOFError, KeyError, TypeError,
                pickle.UnpicklingError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise InvalidInput(f"cannot read '{file}': {reason}; begin anew with --restart") from None
        for name, value in here.items():
            if run.get(name) != value:
                raise InvalidInput(f"'{self._output}' holds a run whose {name} was {run.get(name)}, here "
                                   f"it is {value}; give the same to go on, or --restart to begin anew")
        self._sampler.load_state_dict(state["sampler"])
        self.head.load_state_dict(state["head"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.done = state["step"]
        self._tell(f"going on after step {self.done} of {self.options.steps}")


def rate_at(step, options):
    """The learning rate of a step, counted from 0: a linear warm-up, then a cosine down to 0."""
    if step < options.warmup_steps:
        return options.learning_rate * (step + 1) / options.warmup_steps
    share = (step - options.warmup_steps) / max(options.steps - options.warmup_steps, 1)
    return options.learning_rate * (1 + math.cos(math.pi * share)) / 2


def acceptance_figures(acceptance):
    """The table of an Acceptance as JSON."""
    return {"accepted_length": acceptance.accepted_length, "rates": acceptance.rates,
            "tried": list(acceptance.tried), "accepted": list(acceptance.accepted)}


class _Asked(contextlib.AbstractContextManager):
    """True from the moment on that SIGINT or SIGTERM came. A second one ends the process."""

    def __enter__(self):
        self._came = False
        self._before = {number: signal.signal(number, self._note)
                        for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_):
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __bool__(self):
        return self._came

    def _note(self, number, _):
        self._came = True
        signal.signal(number, self._before[number])
