"""The steps of a training run: which documents they take, and how they are planned and read while
others train."""

import json
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch

from slimpack import InvalidInput, StepPlan, _planner
from slimpack.balancing import require_positive
from slimpack.labelled import LabelledTokens
from slimpack.lengths import as_lengths
from slimpack.torch.targets import as_weights, count_of, targets_of

_END = object()  # of an iterator


class Drawn(NamedTuple):
    """The sequences of a step. documents, begins, lengths: by sequence its document, the tokens
    before it and its own. cursor: where the sampler stands after it."""

    documents: np.ndarray
    begins: np.ndarray
    lengths: np.ndarray
    cursor: dict


class StepSampler:
    """Draws whole documents at random, each once an epoch, as `slimpack train` does with the same
    seed.

    lengths: tokens of every document. A step ends with the sequence that reaches step_tokens, on
    all ranks together. Documents longer than `context` become several sequences.
    """

    def __init__(self, lengths, *, context, step_tokens, seed=0):
        self._lengths = as_lengths(lengths)
        for name, value in (("context", context), ("step_tokens", step_tokens)):
            require_positive(name, value)
        if min(context, self._lengths.max(initial=0)) < 2:
            raise InvalidInput(
                f"no token is predicted: the context is {context}, the longest document has "
                f"{self._lengths.max(initial=0)} tokens; both need 2 or more")
        self.context, self.step_tokens = context, step_tokens
        self.go_to({"seed": seed, "epoch": 0, "position": 0})

    def next_step(self):
        """The next step's Drawn."""
        columns = self._native.next_step()
        return Drawn(*columns, json.loads(self._native.cursor))

    def peek(self):
        """The lengths of the next step, which stays the next one."""
        before = json.loads(self._native.cursor)
        lengths = self.next_step().lengths
        self.go_to(before)
        return lengths

    def state_dict(self, cursor=None):
        """Where the sampler stands, or stood at a cursor of Drawn."""
        return {"documents": int(self._lengths.size), "tokens": int(self._lengths.sum()),
                "context": self.context, "step_tokens": self.step_tokens,
                "cursor": cursor or json.loads(self._native.cursor)}

    def load_state_dict(self, state):
        """Goes on where another sampler of the same documents stood."""
        here = self.state_dict(state["cursor"])
        for name, value in here.items():
            if state[name] != value:
                raise InvalidInput(
                    f"the sampler's {name} was {state[name]}, here it is {value}; go on with the "
                    "same documents, context and step_tokens")
        self.go_to(state["cursor"])

    def go_to(self, cursor):
        """Goes on behind the Drawn that has this cursor."""
        self._native = _planner.Sampler.make(self._lengths, self.context, self.step_tokens,
                                             json.dumps(cursor))


class PlannedStep(NamedTuple):
    """plan: the same on all ranks. drawn: its sequences. documents: documents_of them. planning_ns:
    how long planning took; waited_ns: how long training waited for it."""

    plan: StepPlan
    drawn: Drawn
    documents: dict
    planning_ns: int
    waited_ns: int


class PlannedSteps:
    """Plans steps on the first rank, ahead of training, hands the plans to the others, and reads
    documents ahead.

    While a step trains, the documents of the next one are read and the one after that is planned.
    So two steps are planned before the first one trains.

    job: a slimpack.Job with this run's stages and replicas; only the first rank's is used. Every
        step is planned for the layers that the engine's stages hold.
    sampler: a StepSampler, the same on all ranks.
    read: read(document, begin, end) returns token ids, or LabelledTokens where not all are targets,
        such as IndexedDataset.read. It is called on a thread of its own, on the ranks of the first
        and the last stage.
    """

    def __init__(self, engine, job, sampler, read):
        self.sampler = sampler
        self._engine, self._read_document = engine, read
        self._job = job.with_stages(engine.stage.place.layer_begin)
        self._left_out = 0  # tokens of the steps left out since the last one with a target

    def plan(self, lengths):
        """The StepPlan of some sequences, on all ranks. Raises InvalidInput where there is none."""
        with self._engine.watch:
            first = self._engine.groups.rank == 0
            return self._handed_over(self._job.plan(lengths) if first else None)[0]

    def take(self, count, max_tokens=None):
        """The next `count` PlannedSteps, or fewer where their tokens reach max_tokens before. All
        ranks of the engine go through them together, and may leave off before the end.

        A step without a target is left out with a warning. Raises InvalidInput where a step cannot be
        planned, and where no document has a target.
        """
        last, tokens = None, 0
        with ThreadPoolExecutor(1, "slimpack planner") as planner, \
                ThreadPoolExecutor(1, "slimpack reader") as reader:
            try:
                while count and not (max_tokens and tokens >= max_tokens):  # again for what is left out
                    draws = self._draw(count, max_tokens and max_tokens - tokens)
                    for step in self._with_targets(self._read(reader, self._handed(planner, draws))):
                        last = step.drawn.cursor
                        tokens, count = tokens + int(step.drawn.lengths.sum()), count - 1
                        yield step
            finally:
                if last is not None:
                    self.sampler.go_to(last)  # steps ahead may have been drawn in vain

    def _draw(self, count, max_tokens):
        """The Drawn of `take`, if none is left out."""
        tokens = 0
        while count and not (max_tokens and tokens >= max_tokens):
            drawn = self.sampler.next_step()
            tokens, count = tokens + int(drawn.lengths.sum()), count - 1
            yield drawn

    def _with_targets(self, steps):
        """The steps that have a target on some rank, on all ranks."""
        while True:
            with self._engine.watch:
                step = next(steps, None)
                if step is None:
                    return
                targets = self._targets_of(step)
            if targets:
                self._left_out = 0
                yield step
                continue
            self._left_out += int(step.drawn.lengths.sum())
            if self._left_out > 2 * self.sampler.state_dict()["tokens"]:  # all of an epoch
                raise InvalidInput("no document has a target, so there is nothing to learn; give labels "
                                   "other than -100")
            if self._engine.groups.rank == 0:
                warnings.warn(f"a step is left out: none of its {int(step.drawn.lengths.sum())} tokens is a "
                              "target", stacklevel=2)

    def _targets_of(self, step):
        """The targets of a step, on all ranks together."""
        own = step.documents.values() if self._engine.stage.place.is_last else ()
        said = self._engine.groups.gather_numbers([sum(count_of(targets_of(document)) for document in own)])
        return sum(count for count, in said)

    def _handed(self, planner, draws):
        """PlannedSteps without documents of all draws, on all ranks; while one is used, the first
        rank plans the next."""
        first = self._engine.groups.rank == 0

        def start(drawn):
            return drawn, planner.submit(self._timed_plan, drawn.lengths) if first else None

        for drawn, planning in _one_ahead(map(start, draws)):
            begin = time.monotonic_ns()
            plan, planning_ns = planning.result() if first else (None, None)
            plan, planning_ns = self._handed_over(plan, planning_ns)
            yield PlannedStep(plan, drawn, {}, planning_ns, time.monotonic_ns() - begin)

    def _read(self, reader, handed):
        """The steps with their documents; while one is used, the next one's are read."""

        def start(step):
            return step, reader.submit(documents_of, step.drawn, step.plan, self._engine,
                                       self._read_document)

        for step, reading in _one_ahead(map(start, handed)):
            yield step._replace(documents=reading.result())

    def _timed_plan(self, lengths):
        start = time.monotonic_ns()
        return self._job.plan(lengths), time.monotonic_ns() - start

    def _handed_over(self, plan, planning_ns=0):
        """On all ranks what the first one has."""
        said = None if plan is None else (plan.to_json(), planning_ns)
        text, planning_ns = self._engine.groups.hand_over(said)
        return plan or StepPlan.from_json(text, "plan of rank 0"), planning_ns


def _one_ahead(items):
    """The items; when one is given, the next one has been asked for."""
    items = iter(items)
    ahead = next(items, _END)
    while ahead is not _END:
        item, ahead = ahead, next(items, _END)
        yield item


def documents_of(drawn, plan, engine, read):
    """Token ids or LabelledTokens by sequence of the engine's replica, as tensors; stages in the middle
    need none."""
    documents, place = {}, engine.stage.place
    if not (place.is_first or place.is_last):
        return documents
    for sequence in map(int, plan.replicas[engine.groups.replica].sequences):
        begin, length = int(drawn.begins[sequence]), int(drawn.lengths[sequence])
        number = int(drawn.documents[sequence])
        documents[sequence] = _as_tensors(read(number, begin, begin + length), number, begin)
    return documents


def _as_tensors(document, number, begin):
    if not isinstance(document, LabelledTokens):
        return _as_tensor(document)
    tokens, labels = _as_tensor(document.tokens), _as_tensor(document.labels)
    if labels.shape != tokens.shape:
        raise InvalidInput(f"document {number} has labels of shape {list(labels.shape)} for {len(tokens)} "
                           "tokens; give one label for each token")
    weights = as_weights(document.weights, len(tokens), f"document {number}", begin)
    return LabelledTokens(tokens, labels, weights)


def _as_tensor(ids):
    return ids if isinstance(ids, torch.Tensor) else torch.tensor(ids)
