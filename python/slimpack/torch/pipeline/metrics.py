"""metrics.jsonl and the files of the last step of a run, as `slimpack train` writes them (docs/metrics.md)."""

import json
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

from slimpack import Timeline, _planner

_REAL_WAIT_NS = 1_000_000  # a shorter one is that of handing over a plan that was ready


class MetricsFile:
    """Writes a line for each step and each evaluation. Lines of steps that are trained again are
    replaced."""

    def __init__(self, folder):
        self._file, self._out = Path(folder) / "metrics.jsonl", None

    def add(self, figures):
        """Figures of a step or of an evaluation: a dict with "step"."""
        if self._out is None:
            self._out = self._file.open("ab")
            self._out.truncate(_bytes_before(figures, self._file))
        line = {**figures, "unix_ms": time.time_ns() // 1_000_000}
        self._out.write(json.dumps(line).encode() + b"\n")
        self._out.flush()


def _place_of(line):
    """An evaluation comes after the step before it."""
    return line["step"], "evaluation_loss" in line


def _bytes_before(figures, file):
    """Bytes of the whole lines that come before that of the figures."""
    size = 0
    for line in file.read_bytes().splitlines(keepends=True):
        try:
            earlier = line.endswith(b"\n") and _place_of(json.loads(line)) < _place_of(figures)
        except (ValueError, KeyError, TypeError):
            earlier = False
        if not earlier:
            break
        size += len(line)
    return size


def figures_of(number, planned, result, norm, learning_rate, measured):
    """What a line of metrics.jsonl says of a step. measured: its Timeline."""
    plan, drawn = planned.plan, planned.drawn
    tokens = int(drawn.lengths.sum())
    return {"step": number, "loss": result.loss, "gradient_norm": norm,
            "learning_rate": learning_rate,
            "documents": len(set(drawn.documents.tolist())), "sequences": len(drawn.lengths),
            "tokens": tokens, "longest": int(drawn.lengths.max()), "clock": "wall",
            "step_ns": measured.makespan_ns, "predicted_step_ns": round(plan.makespan * 1e9),
            "tokens_per_second": tokens / measured.makespan_ns * 1e9,
            "bubble": measured.bubble_ratio, "predicted_bubble": plan.bubble_ratio,
            "peak_activation_bytes": measured.peak_activation_bytes.tolist(),
            "predicted_peak_activation_bytes": plan.peak_activation_bytes.tolist(),
            "planning_ns": planned.planning_ns, "planning_wait_ns": planned.waited_ns}


class Place(NamedTuple):
    """Where a step stands in its run. begun: steps done before this start; steps: of the whole run;
    elapsed_ns: since this start's first step began."""

    begun: int
    steps: int
    elapsed_ns: int


def step_line(figures, place, columns=None):
    """A step's figures for people, as `slimpack train` prints them: as many as fit into that many
    columns, None = any."""
    step, left = figures["step"], place.steps - figures["step"]
    duration = _planner.human_duration
    ends = (f"{duration(place.elapsed_ns // (step - place.begun) * left)} left" if left > 0
            else f"took {duration(place.elapsed_ns)}")
    line = (f"step {step:>{len(str(place.steps))}}/{place.steps}  loss {figures['loss']:.4f}  "
            f"{ends}")
    peak, wait = max(figures["peak_activation_bytes"]), figures["planning_wait_ns"]
    for part in (f"  {_planner.human_count(figures['tokens_per_second'])} tok/s",
                 f"  bubble {_planner.human_share(figures['bubble'])}",
                 f" (predicted {_planner.human_share(figures['predicted_bubble'])})",
                 f"  peak {_planner.human_bytes(peak)}",
                 f"  {_planner.human_count(figures['tokens'])} tok in "
                 f"{_planner.counted(figures['documents'], 'doc')}",
                 f"  waited {duration(wait)} for the plan" if wait >= _REAL_WAIT_NS else ""):
        if columns is not None and len(line) + len(part) > columns:
            break
        line += part
    return line


def evaluation_line(figures):
    """An evaluation's figures for people."""
    return (f"evaluation after step {figures['step']}: loss {figures['evaluation_loss']:.4f} on "
            f"{_planner.human_count(figures['evaluation_tokens'])} tok in "
            f"{_planner.counted(figures['evaluation_documents'], 'doc')}, took "
            f"{_planner.human_duration(figures['evaluation_ns'])}")


def columns_of_stderr():
    """Those of its terminal; None = it is none."""
    if not sys.stderr.isatty():
        return None
    return os.get_terminal_size(sys.stderr.fileno()).columns or 80


def write_step_files(folder, number, planned, measured, device):
    """Writes timeline.json, a Chrome trace of a step as it was predicted and as it was measured, and what
    `slimpack report` reads: plan.json and measured.json."""
    plan, drawn, folder = planned.plan, planned.drawn, Path(folder)
    trace = plan.chrome_trace([plan.timeline(), measured], drawn.documents, drawn.begins)
    (folder / "timeline.json").write_text(trace, encoding="utf-8")
    plan.save(folder / "plan.json")
    text = plan.measured_step(measured, number, str(device), drawn.documents, drawn.begins)
    (folder / "measured.json").write_text(text, encoding="utf-8")


def measured_timeline(engine):
    """The Timeline of an engine's last step. Called by all ranks."""
    return Timeline.from_json(engine.timeline(), "measured timeline")
