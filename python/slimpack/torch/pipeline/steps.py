"""The steps of a training run: which documents they take, and how they are planned while others
train."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch

from slimpack import InvalidInput, StepPlan, _planner
from slimpack.balancing import require_positive
from slimpack.lengths import as_lengths


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
    """plan: the same on all ranks. drawn: its sequences. documents: token ids by sequence of this
    rank's replica. planning_ns: how long planning took; waited_ns: how long training waited for
    it."""

    plan: StepPlan
    drawn: Drawn
    documents: dict
    planning_ns: int
    waited_ns: int


class PlannedSteps:
    """Plans steps on the first rank, one ahead of training, and hands the plans to the others.

    job: a slimpack.Job with this run's stages and replicas; only the first rank's is used. Every
        step is planned for the layers that the engine's stages hold.
    sampler: a StepSampler, the same on all ranks.
    read: read(document, begin, end) returns token ids.
    """

    def __init__(self, engine, job, sampler, read):
        self.sampler = sampler
        self._engine, self._read = engine, read
        self._job = job.with_stages(engine.stage.place.layer_begin)

    def plan(self, lengths):
        """The StepPlan of some sequences, on all ranks. Raises InvalidInput where there is none."""
        with self._engine.watch:
            first = self._engine.groups.rank == 0
            return self._handed_over(self._job.plan(lengths) if first else None)[0]

    def take(self, count, max_tokens=None):
        """The next `count` PlannedSteps, or fewer where their tokens reach max_tokens before. All
        ranks of the engine go through them together, and may leave off before the end.

        Raises InvalidInput where a step cannot be planned.
        """
        tokens, last = 0, None
        with ThreadPoolExecutor(1, "slimpack planner") as planner:
            ahead = None
            try:
                for left in reversed(range(count)):
                    start = time.monotonic_ns()
                    with self._engine.watch:
                        drawn, planning = ahead or self._start(planner)
                        tokens += int(drawn.lengths.sum())
                        more = left and not (max_tokens and tokens >= max_tokens)
                        ahead = self._start(planner) if more else None
                        step = self._planned(drawn, planning, start)
                    last = drawn.cursor
                    yield step
                    if not more:
                        return
            finally:
                if ahead is not None and last is not None:
                    self.sampler.go_to(last)  # the step ahead was drawn in vain

    def _start(self, planner):
        """Draws a step and, on the first rank, starts to plan it."""
        drawn = self.sampler.next_step()
        first = self._engine.groups.rank == 0
        return drawn, planner.submit(self._timed_plan, drawn.lengths) if first else None

    def _timed_plan(self, lengths):
        start = time.monotonic_ns()
        return self._job.plan(lengths), time.monotonic_ns() - start

    def _planned(self, drawn, planning, start):
        plan, planning_ns = (None, None) if planning is None else planning.result()
        plan, planning_ns = self._handed_over(plan, planning_ns)
        waited_ns = time.monotonic_ns() - start
        documents = documents_of(drawn, plan, self._engine.groups.replica, self._read)
        return PlannedStep(plan, drawn, documents, planning_ns, waited_ns)

    def _handed_over(self, plan, planning_ns=0):
        """On all ranks what the first one has."""
        said = None if plan is None else (plan.to_json(), planning_ns)
        text, planning_ns = self._engine.groups.hand_over(said)
        return plan or StepPlan.from_json(text, "plan of rank 0"), planning_ns


def documents_of(drawn, plan, replica, read):
    """Token ids by sequence of a replica."""
    documents = {}
    for sequence in map(int, plan.replicas[replica].sequences):
        begin, length = int(drawn.begins[sequence]), int(drawn.lengths[sequence])
        tokens = read(int(drawn.documents[sequence]), begin, begin + length)
        documents[sequence] = tokens if isinstance(tokens, torch.Tensor) else torch.tensor(tokens)
    return documents
