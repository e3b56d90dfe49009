"""Costs of a model under slimpack.torch.pipeline on a machine that is not at hand: its times follow
from a hardware file, and bytes are counted on tensors without memory."""

import json
from pathlib import Path

import torch

from slimpack import InvalidInput, _planner
from slimpack.job import Job
from slimpack.torch.pipeline.loss import LOGITS_AT_ONCE
from slimpack.torch.profiling.blueprint import Blueprint
from slimpack.torch.profiling.clock import Clock
from slimpack.torch.profiling.counted_model import counted
from slimpack.torch.profiling.lone_layer import LoneLayer, Point
from slimpack.torch.profiling.profile import (
    DTYPES,
    cost_file,
    counted_sizes,
    fitted_bytes,
    layer_fields,
    positions_of,
)
from slimpack.torch.profiling.turns import far_points

_NOTHING = torch.device("meta")
_ROUNDS = 50  # of fits, each of which is nearer to the largest bytes
# DGX H100: two processors with eight channels of DDR5-4800 each (data sheets), shared by eight GPUs.
_HOST_BANDWIDTH = 77e9
_ADAMW_BYTES = 28  # of fp32 for a parameter: gradient, moments, weight; moments and weight again


def estimate(model, file, hardware, *, dtype=torch.bfloat16, context=131072):
    """Writes a cost file as `profile` does, without running anything: its path.

    Bytes are those of the model's own layers, whose operations run on torch's meta device, attention
    as on a CPU. Times are those of SlimPack's fused kernels on the machine: a model whose norms and
    activations are single operations of torch takes longer, above all of short documents.

    model: what `profile` takes, wholly trained; of those that docs/models.md lists. hardware: a hardware file, or a
        name that comes with slimpack ("h100"). context: the most tokens of a sequence. MicroPacks up
        to its end are counted, and none has more bytes than the file says.
    Raises InvalidInput.
    """
    blueprint = Blueprint.of(model)
    config, known = blueprint.config, counted(blueprint)
    if not known.is_whole:
        raise InvalidInput("estimate knows models of which all weights train; measure others with "
                           "slimpack.torch.profile, or give a job adapter_rank and hardware figures")
    positions = positions_of(config)
    context = min(context, positions)
    times = _times(config, hardware, dtype)
    kinds = [times, *times.get("more_kinds", [])]
    if len(kinds) != len(known.kinds):
        raise InvalidInput(
            f"{config.model_type} has {len(known.kinds)} kinds of layers, of which {len(kinds)} are "
            "known without running them; measure it with slimpack.torch.profile")
    layers, points = [], far_points(context)
    own = times["autograd"]["layers"] if "autograd" in times else [None] * len(kinds)
    for kind, of_kind, of_own in zip(known.kinds, kinds, own, strict=True):
        lone = LoneLayer(blueprint, kind.layer, dtype, _NOTHING, Clock(torch.device("cpu")))
        passes = _passes(of_kind) if of_own is None else _own_passes(of_kind, of_own)
        layers.append(layer_fields(lone, kind, passes, counted_sizes(lone, kind, points, _no_less)))
    cost = cost_file(blueprint, dtype, known, layers, (0.0, 0.0)) | {
        name: times[name] for name in _SAME if name in times}
    cost["autograd"] |= {"max_positions": positions, "stage": {"per_pack": 0.0, "per_token": 0.0},
                         "head_peak": _head_peak(config, dtype.itemsize, context)}
    per_byte = times["host_per_byte"]
    if per_byte > 0:
        size = dtype.itemsize
        ways = (max(size, 4) + size) * per_byte
        cost["host_optimizer"] = {"per_parameter": ways + 1e9 * _ADAMW_BYTES / _HOST_BANDWIDTH,
                                  "state_bytes": 0.0}
    cost["source"] = f"slimpack.torch.estimate of {config.model_type}, {times['source']}"
    Path(file).write_text(_planner.checked_cost(json.dumps(cost), str(file)), encoding="utf-8")
    return Path(file)


# Fields that do not depend on whose layers run.
_SAME = ("embedding_forward", "embedding_backward", "head_backward", "optimizer_per_parameter",
         "transfer_latency", "transfer_per_byte", "reduce_latency", "reduce_per_byte", "host_per_byte",
         "host_memory", "memory", "peak_flops", "ranks_per_node", "gpu", "fit_error")


def _times(config, hardware, dtype):
    """The cost file of SlimPack's own layers of that model on the machine, as data."""
    job = Job(config, hardware=hardware, dtype=DTYPES[dtype], memory_cap="none")
    return json.loads(job.plan([1]).to_json())["cost"]


def _passes(times):
    """The times of a layer's passes, by what backward computes again: all, nothing, or elementwise
    results."""
    forward, backward = times["forward"], times["backward"]
    again = times["elementwise"]
    kept = {**backward, **{term: max(0.0, backward[term] - again[term]) for term in again}}
    return {"full_forward": forward, "full_backward": _sum(forward, kept),
            "nothing_forward": forward, "nothing_backward": kept,
            "elementwise_forward": forward, "elementwise_backward": backward}


def _own_passes(of_kind, own):
    """The times of a layer's passes where they are of slimpack.torch.pipeline's layers already.
    own: the layer's part of "autograd"."""
    return {"full_forward": of_kind["forward"], "full_backward": of_kind["backward"],
            **{f"{kept}_{passes}": own[kept][passes] for kept in ("nothing", "elementwise")
               for passes in ("forward", "backward")}}


def _no_less(found, kind):
    """A form that is at none of the pairs (point, bytes) below the bytes. A peak is at one of several
    moments, which no sum describes: of few tokens with a long prefix at another one than of many."""
    found, aims = dict(found), dict(found)
    for _ in range(_ROUNDS):
        form = fitted_bytes(aims.items(), kind)
        short = {point: size / max(1.0, _at(form, point, kind.window)) for point, size in found.items()}
        aims = {point: aim * max(1.0, short[point]) for point, aim in aims.items()}
    most = max(1.0, *short.values())
    return {term: value if term == "window" else value * most for term, value in form.items()}


def _at(form, point: Point, window):
    """The bytes that a form says of a Point."""
    def pairs(reach):
        ends = point.prefix, point.prefix + point.tokens
        seen = [min(end, reach) * (min(end, reach) + 1) // 2 + max(0, end - reach) * reach
                for end in ends]
        return seen[1] - seen[0]

    everything = point.prefix + point.tokens
    of_slice = (form["per_slice"] + form["per_token"] * point.tokens
                + form["per_pair"] * pairs(everything) + form["per_prefix_token"] * point.prefix
                + form.get("per_window_pair", 0) * pairs(window)
                + form.get("per_window_prefix", 0) * min(point.prefix, max(0, window - 1)))
    return form["per_pack"] + point.slices * of_slice


def _head_peak(config, size, context):
    """Bytes on a GPU beyond the head's input: the gradient of its weights, and once more as wide as
    it is summed; a block of logits (loss.py); rows and their gradients."""
    text = config.get_text_config()
    weights, block = text.vocab_size * text.hidden_size, LOGITS_AT_ONCE["cuda"]
    all_at_once = context * text.vocab_size <= block
    return {"per_pack": float(weights * (size + max(size, 4)) + (0 if all_at_once else block * size)),
            "per_token": float((2 * text.hidden_size + (text.vocab_size if all_at_once else 0)) * size)}


def _sum(a, b):
    return {term: a[term] + b[term] if isinstance(a[term], float | int) and term != "window"
            else a[term] for term in a}
