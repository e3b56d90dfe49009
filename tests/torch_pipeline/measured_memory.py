"""Bytes that the stages of a planned step hold, as they run in one process; and costs of which only the
bytes are as they were measured."""

import json

import torch
from slimpack.torch.pipeline import LocalEngine
from slimpack.torch.pipeline.documents import Given
from slimpack.torch.pipeline.local import stages_of
from slimpack.torch.profiling.live_bytes import CountedBytes


AROUND_LAYERS = ("stage", "embedding_forward", "embedding_backward", "head_backward")
TIME_AROUND_LAYERS = {"per_pack": 1e4, "per_token": 1e3}
PASS = {"per_pack": 1e5, "per_slice": 1e4, "per_token": 1e4, "per_pair": 10.0,
        "per_prefix_token": 100.0}


def with_fixed_times(cost, file):
    """The cost file, written to `file`, with the same times of all layers and passes, so that plans
    depend on measured bytes alone."""
    costs = json.loads(cost.read_text())
    _fix_times(costs)
    costs["optimizer_per_parameter"] = 1.0
    file.write_text(json.dumps(costs))
    return file


def _fix_times(costs):
    for key, value in costs.items():
        if key in ("forward", "backward"):
            costs[key] = PASS
        elif key in AROUND_LAYERS:
            costs[key] = TIME_AROUND_LAYERS
        elif isinstance(value, dict) and key != "model":
            _fix_times(value)
        elif key == "layers":
            for layer in value:
                _fix_times(layer)


def documents_of(lengths):
    return [torch.randint(0, 61, (length,)) for length in lengths]


def measured_peaks(make_model, step):
    """By stage the most bytes that its actions have held."""
    documents = documents_of(step.lengths)
    torch.manual_seed(0)
    engine = LocalEngine(stages_of(make_model, step.layer_begin))
    for parameter in (parameter for stage in engine.stages for parameter in stage.parameters()):
        if parameter.requires_grad:
            parameter.grad = torch.zeros_like(parameter)
    with CountedBytes() as meter:
        steps = engine._begin(step, Given(documents))
        peaks = [_watch(of_stage, meter) for of_stage in steps[0]]
        engine._run(steps)
    return [of_stage[-1] for of_stage in peaks]


def _watch(stage_step, meter):
    """A list to which the peak of a stage's bytes, as its actions have run, is added."""
    peaks, run, held = [0], stage_step.run, 0

    def watched(passes, number, received):
        nonlocal held
        meter.restart()
        before = meter.now
        sent = run(passes, number, received)
        peaks.append(max(peaks[-1], held + meter.peak - before))
        held += meter.now - before - (0 if sent is None else sent.nbytes)
        return sent

    stage_step.run = watched
    return peaks
