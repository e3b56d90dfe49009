"""metrics.jsonl and timeline.json of a run, as `slimpack train` writes them (docs/metrics.md)."""

import json
import time
from pathlib import Path

from slimpack import Timeline


class MetricsFile:
    """Writes a line for each step. Lines of steps that are trained again are replaced."""

    def __init__(self, folder):
        self._file, self._out = Path(folder) / "metrics.jsonl", None

    def add(self, figures):
        """Figures of a step: a dict with "step"."""
        if self._out is None:
            self._out = self._file.open("ab")
            self._out.truncate(_bytes_before(figures["step"], self._file))
        line = {**figures, "unix_ms": time.time_ns() // 1_000_000}
        self._out.write(json.dumps(line).encode() + b"\n")
        self._out.flush()


def _bytes_before(step, file):
    """Bytes of the whole lines of earlier steps."""
    size = 0
    for line in file.read_bytes().splitlines(keepends=True):
        try:
            earlier = line.endswith(b"\n") and json.loads(line)["step"] < step
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


def step_line(figures):
    """A step's figures for people."""
    return (f"step {figures['step']}: loss {figures['loss']:.4f}, "
            f"norm {figures['gradient_norm']:.3g}, {figures['sequences']} sequences, "
            f"{figures['tokens_per_second']:,.0f} tokens/s, bubble {figures['bubble']:.1%}")


def write_timeline(folder, planned, measured):
    """Writes timeline.json: a Chrome trace of a step as it was predicted and as it was measured."""
    text = planned.plan.chrome_trace([planned.plan.timeline(), measured], planned.drawn.documents,
                                     planned.drawn.begins)
    (Path(folder) / "timeline.json").write_text(text, encoding="utf-8")


def measured_timeline(engine):
    """The Timeline of an engine's last step. Called by all ranks."""
    return Timeline.from_json(engine.timeline(), "measured timeline")
