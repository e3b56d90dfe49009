"""`python -m slimpack.tensorboard`: what TensorBoard reads is what metrics.jsonl says."""

import contextlib
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from processes import PATIENCE, environment
from program import all_metrics
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.tensorflow_stub.errors import OpError


def command(folder, *options):
    return [sys.executable, "-m", "slimpack.tensorboard", str(folder), *options]


def convert(folder):
    return subprocess.run(command(folder), env=environment(), capture_output=True, text=True,
                          timeout=PATIENCE, check=False)


def points(folder):
    """(step, value, seconds) of every scalar by name, as TensorBoard's own reader finds them."""
    events = EventAccumulator(str(folder / "tensorboard"), size_guidance=dict(scalars=0))
    events.Reload()
    return {name: [(e.step, e.value, e.wall_time) for e in events.Scalars(name)]
            for name in events.Tags()["scalars"]}


def expected_points(lines):
    points = {}
    for line in lines:
        for name, value in line.items():
            if name in ("step", "unix_ms", "clock", "evaluation_by_length"):
                continue
            value = float(np.float32(max(value) if isinstance(value, list) else value))
            points.setdefault(name, []).append((line["step"], value, line["unix_ms"] / 1000))
        for part in line.get("evaluation_by_length", []):
            points.setdefault(f"evaluation_loss_from_{part['from']}", []).append(
                (line["step"], float(np.float32(part["loss"])), line["unix_ms"] / 1000))
    return points


def test_event_files_hold_every_figure_once(workspace):
    folder = workspace.train("shown", "parallel.pp=2", "evaluation.every=2",
                             f"evaluation.prefix={workspace.folder}/corpus")
    expected = expected_points(all_metrics(folder))
    assert {"loss", "gradient_norm", "learning_rate", "tokens_per_second", "bubble",
            "peak_activation_bytes", "planning_wait_ns", "evaluation_loss"} <= expected.keys()
    for _ in range(2):
        done = convert(folder)
        assert done.returncode == 0, done.stderr
        assert points(folder) == expected
        assert len(list((folder / "tensorboard").iterdir())) == 1


def test_figures_of_held_out_sets_end_with_their_names(tmp_path):
    lines = [dict(step=2, evaluation_loss=loss, evaluation_tokens=9, evaluation_name=name, unix_ms=1000)
             for name, loss in (("web", 4.5), ("code", 2.5))]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = convert(tmp_path)
    assert done.returncode == 0, done.stderr
    assert points(tmp_path) == {
        "evaluation_loss/web": [(2, 4.5, 1)], "evaluation_tokens/web": [(2, 9, 1)],
        "evaluation_loss/code": [(2, 2.5, 1)], "evaluation_tokens/code": [(2, 9, 1)]}


def line_of(step, loss):
    return json.dumps(dict(step=step, loss=loss, unix_ms=1000 + step)) + "\n"


@contextlib.contextmanager
def following(folder):
    with subprocess.Popen(command(folder, "--follow"), env=environment(), stderr=subprocess.PIPE,
                          text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_losses(folder, losses):
    end = time.monotonic() + PATIENCE
    found = None
    while found != list(enumerate(losses)):
        assert time.monotonic() < end, found
        time.sleep(0.1)
        if not any(folder.glob("tensorboard/events.*")):
            continue
        with contextlib.suppress(OpError):  # of a file that is replaced just now
            found = [(step, value) for step, value, _ in points(folder).get("loss", [])]


def test_following_reads_whole_lines_as_they_come_and_begins_anew_where_a_run_has_gone_back(tmp_path):
    file = tmp_path / "metrics.jsonl"
    with following(tmp_path) as process:
        assert process.stderr.readline() == f"waiting for {file}\n"
        third = line_of(2, 0.5)
        file.write_text(line_of(0, 2.0) + line_of(1, 1.0) + third[:9])
        wait_for_losses(tmp_path, [2.0, 1.0])
        with file.open("a") as f:
            f.write(third[9:])
        wait_for_losses(tmp_path, [2.0, 1.0, 0.5])
        file.write_text(line_of(0, 2.0) + line_of(1, 0.75) + line_of(2, 0.25) + line_of(3, 0.125))
        wait_for_losses(tmp_path, [2.0, 0.75, 0.25, 0.125])
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert process.stderr.read() == ""


@pytest.mark.parametrize("text, parts", [
    (None, ["metrics.jsonl is not there", "output.dir"]),
    (line_of(0, 1.0) + "no JSON\n", ["metrics.jsonl:2", "output.dir"]),
    (line_of(0, 1.0) + "\n" + line_of(1, 1.0), ["metrics.jsonl:2"]),
    ("[1]\n", ["metrics.jsonl:1"]),
    ('{"loss": 1.0}\n', ["metrics.jsonl:1", "step"]),
    ('{"step": "one"}\n', ["metrics.jsonl:1", "step"]),
    ('{"step": -1}\n', ["metrics.jsonl:1", "step"]),
    ('{"step": 99999999999999999999}\n', ["metrics.jsonl:1", "step"]),
    ("[" * 100_000 + "\n", ["metrics.jsonl:1", "step"]),
])
def test_what_is_no_metrics_is_refused_in_one_line(tmp_path, text, parts):
    if text is not None:
        (tmp_path / "metrics.jsonl").write_text(text)
    done = convert(tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("slimpack: ")
    for part in parts:
        assert part in line
    assert not (tmp_path / "tensorboard").exists()
