"""A planned step: which slices run together, in which order, and what that is expected to take."""

import json
import os
from collections import Counter
from pathlib import Path

from slimpack import _planner
from slimpack.files import read_text
from slimpack.numbers import INT64, whole


class StepPlan:
    """Made by `Job.plan`, or read with `StepPlan.load`. Arrays are views, without copies."""

    def __init__(self, native):
        self._native = native
        self._json = None

    @classmethod
    def load(cls, file):
        """Reads what `save` or `slimpack plan --out` wrote; checks it and simulates it again."""
        file = os.fspath(file)
        return cls.from_json(read_text(file, "plan file"), file)

    @classmethod
    def from_json(cls, text, origin="plan"):
        return cls(_planner.StepPlan.from_json(text, origin))

    def to_json(self):
        """The text that `slimpack plan --out` writes for the same job and lengths."""
        if self._json is None:  # a training step asks for it several times
            self._json = self._native.to_json()
        return self._json

    def save(self, file):
        """Writes the plan where `slimpack simulate` and `load` read it. The file is replaced only when
        the new one is complete."""
        file = Path(file)
        partial = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            partial.write_text(self.to_json(), encoding="utf-8")
            partial.replace(file)
        finally:
            partial.unlink(missing_ok=True)

    @property
    def lengths(self):
        """Tokens of each sequence of the step."""
        return self._native.lengths

    @property
    def replicas(self):
        """By replica: its sequences, and the MicroPacks of its forward and its backward pass."""
        return self._native.replicas

    @property
    def layer_begin(self):
        """Stage s holds the layers from layer_begin[s] to before layer_begin[s + 1]."""
        return self._native.layer_begin

    @property
    def stages(self):
        return len(self.layer_begin) - 1

    @property
    def stages_per_rank(self):
        """Around the ranks, stage s sits on rank s mod (stages / stages_per_rank) of the pipeline."""
        return self._native.stages_per_rank

    @property
    def spread_vocabulary(self):
        """Whether every rank of the pipeline has a part of embedding and head."""
        return self._native.spread_vocabulary

    @property
    def tp(self):
        """Tensor-parallel ranks of each stage."""
        return self._native.tp

    @property
    def recompute(self):
        """How many layers compute what again in the backward pass, such as {"elementwise": 32}."""
        return dict(sorted(Counter(self.recompute_by_layer).items()))

    @property
    def recompute_by_layer(self):
        """By layer of the model what the backward pass computes again, such as "elementwise"."""
        return self._native.recompute

    def actions(self, replica=0):
        """By rank of the pipeline the order of its Actions. As text: `schedule`."""
        return self._native.actions(replica)

    def schedule(self, replica=0):
        """By rank of the pipeline the order of its actions: "0F3" is stage 0, forward MicroPack 3; B is
        backward, I and W are its input-gradient and weight-gradient parts."""
        return _texts(self.actions(replica))

    def exchanges(self, replica=0):
        """The context exchanges as (giver, taker, keys): the rank of the taker runs the queries of the
        giver's action, such as "2F5", on the oldest keys of their sequence."""
        return self._native.exchanges(replica)

    def instructions(self, replica=0):
        """By rank of the pipeline the order of its Instructions. As text: `lowered`."""
        return self._native.instructions(replica)

    def lowered(self, replica=0):
        """By rank of the pipeline the order of its actions, sends and receives: "1RECV_F3" posts the
        receive of what stage 1 needs for "1F3", "1SEND_F3" posts the send of what that gives. No rank
        waits for another one before an action needs its input."""
        return _texts(self.instructions(replica))

    @property
    def makespan(self):
        """Predicted seconds of the step."""
        return self._native.makespan_ns / 1e9

    @property
    def lower_bound(self):
        """Seconds: no plan of these sequences is faster."""
        return self._native.lower_bound_ns / 1e9

    @property
    def gap(self):
        """makespan / lower_bound - 1."""
        return self._native.gap

    @property
    def bubble_ratio(self):
        """1 - busy time / (ranks · makespan)."""
        return self._native.bubble_ratio

    @property
    def busy_ns(self):
        """Nanoseconds that each rank works; stage s of replica r is rank r · stages + s."""
        return self._native.busy_ns

    @property
    def peak_activation_bytes(self):
        """The most bytes of activations that each rank holds."""
        return self._native.peak_activation_bytes

    @property
    def baseline(self):
        """The baseline whose plan this is; "" = our search found it."""
        return self._native.baseline

    @property
    def figures(self):
        """The figures of the report as a dict."""
        return json.loads(self._native.figures())

    def timeline(self):
        """The simulated Timeline: what every rank does when."""
        return self._native.predict()

    def chrome_trace(self, timelines, documents=None, begins=None):
        """Chrome trace JSON, for Perfetto, of Timelines of this step, such as the simulated and the
        measured one.

        documents, begins: by sequence the document that the trace names, and how many of its tokens
            come before the sequence; by default the sequence's number, and none.
        """
        count = len(self.lengths)
        return self._native.chrome_trace(
            list(timelines), *_places(range(count) if documents is None else documents,
                                      [0] * count if begins is None else begins))

    def step_figures(self, timeline, step, documents, begins, **trained):
        """A line of metrics.jsonl of this step as a dict, without the time at which it is written.

        timeline, step, documents, begins: as of measured_step.
        trained: loss, gradient_norm, learning_rate, targets, left_out, reading_ns, planning_ns
            and planning_wait_ns.
        """
        documents, begins = _places(documents, begins)
        return json.loads(self._native.step_figures(timeline, step, documents=documents,
                                                    begins=begins, **trained))

    def measured_step(self, timeline, step, device, documents, begins):
        """JSON text of `measured.json`, which `slimpack report` reads beside the plan.

        timeline: the measured Timeline of this step. step: its number, from 1 on.
        device: what it ran on, such as "cuda:0".
        documents, begins: as of chrome_trace.
        """
        return self._native.measured_step(timeline, whole("step", step, 1, INT64), device,
                                          *_places(documents, begins))

    def write_step_files(self, folder, timeline, step, device, documents, begins):
        """Writes what `slimpack report` reads of a step: plan.json and measured.json; and timeline.json,
        a Chrome trace of the step as it was predicted and as it was measured.

        timeline, step, device, documents, begins: as of measured_step.
        """
        self._native.write_step_files(folder, timeline, whole("step", step, 1, INT64), device,
                                      *_places(documents, begins))

    def __str__(self):
        return self._native.report()

    def __repr__(self):
        return (f"<slimpack.StepPlan: {len(self.lengths):,} sequences, {len(self.replicas)} replicas of "
                f"{self.stages} stages, {self.makespan:.4g} s, bubble {self.bubble_ratio:.1%}, at most "
                f"{self.gap:.1%} above the optimum>")

    def _repr_html_(self):
        return f"<pre>{self}</pre>{_planner.timelines_svg([('', self.timeline())])}"


def _texts(ranks):
    return [[str(entry) for entry in rank] for rank in ranks]


def _places(documents, begins):
    """The documents and begins of the sequences, as lists of int."""
    return ([whole("a document's number", document, 0, INT64) for document in documents],
            [whole("begins", begin, 0, INT64) for begin in begins])


def simulate(step):
    """The simulated Timeline of a StepPlan, or of a plan file."""
    return (step if isinstance(step, StepPlan) else StepPlan.load(step)).timeline()
