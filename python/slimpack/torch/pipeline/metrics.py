"""metrics.jsonl and the files of the last step of a run, as `slimpack train` writes them (docs/metrics.md)."""

import json
import math
import os
import sys
import time
from typing import NamedTuple

from slimpack import Timeline, _planner
from slimpack.torch.pipeline.failure import disk_failures


class MetricsFile:
    """Writes a line for each step and each evaluation. Lines of steps that are trained again are
    replaced."""

    def __init__(self, folder):
        self._file = _planner.MetricsFile(folder, "give another folder")

    def add(self, figures):
        """Figures of a step or of an evaluation: a dict with "step"."""
        line = json.dumps({**figures, "unix_ms": time.time_ns() // 1_000_000})
        with disk_failures():
            self._file.add(line, figures["step"], "evaluation_loss" in figures)


def figures_of(number, planned, result, norm, learning_rate, measured):
    """The figures of a step's line in metrics.jsonl. measured: the step's Timeline."""
    figures = planned.plan.step_figures(
        measured, number, planned.drawn.documents, planned.drawn.begins, loss=result.loss,
        gradient_norm=norm, learning_rate=learning_rate, targets=result.targets,
        left_out=planned.left_out, reading_ns=planned.reading_ns, planning_ns=planned.planning_ns,
        planning_wait_ns=planned.waited_ns)
    return {**figures, **_named("loss", result.metrics)}


def evaluation_figures(step, loss, metrics, **of_set):
    """The figures of an evaluation's line. metrics: of the loss, by name."""
    figures = json.loads(_planner.evaluation_figures(step, loss, **of_set))
    return {**figures, **_named("evaluation_loss", metrics)}


def _named(loss, metrics):
    return {f"{loss}_{name}": value for name, value in metrics.items() if math.isfinite(value)}


class Place(NamedTuple):
    """Where a step stands in its run. begun: steps done before this start; steps: of the whole run;
    elapsed_ns: since this start's first step began."""

    begun: int
    steps: int
    elapsed_ns: int


def step_line(figures, place, columns=None):
    """A step's figures for people, as `slimpack train` prints them: as many as fit into that many
    columns, None = any."""
    return _planner.step_line(figures, *place, columns)


def evaluation_line(figures):
    """An evaluation's figures for people, with the name of its set, if it has one."""
    return _planner.evaluation_line(figures)


def columns_of_stderr():
    """The columns of the terminal that stderr is; None = it is no terminal."""
    if not sys.stderr.isatty():
        return None
    return os.get_terminal_size(sys.stderr.fileno()).columns or 80


def write_step_files(folder, number, planned, measured, device):
    """Writes timeline.json, a Chrome trace of a step as it was predicted and as it was measured, and what
    `slimpack report` reads: plan.json and measured.json."""
    with disk_failures():
        planned.plan.write_step_files(folder, measured, number, str(device), planned.drawn.documents,
                                      planned.drawn.begins)


def measured_timeline(engine):
    """The Timeline of an engine's last step. Called by all ranks."""
    return Timeline.from_json(engine.timeline(), "measured timeline")
