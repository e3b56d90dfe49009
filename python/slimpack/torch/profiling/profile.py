"""Measures a model and writes the cost file that plans are made from."""

import json
from pathlib import Path

import torch
import torch.distributed as dist

from slimpack import InvalidInput, _planner
from slimpack.torch.profiling.clock import Clock
from slimpack.torch.profiling.blueprint import Blueprint
from slimpack.torch.profiling.counted_model import counted
from slimpack.torch.profiling.edges import Embedding, Head, fastest_of
from slimpack.torch.profiling.live_bytes import live_bytes
from slimpack.torch.profiling.lone_layer import (
    ELEMENTWISE,
    NOTHING,
    LoneLayer,
    Passes,
    Sizes,
)
from slimpack.torch.profiling.peak import peak_flops
from slimpack.torch.profiling.transfers import host_fields, measured_transfer, share_of_memory
from slimpack.torch.profiling.turns import in_turns, long_points, points_up_to

DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float64: "fp64"}
_NO_TIME = {"per_pack": 0.0, "per_token": 0.0}
_LONGEST_COUNTED = 4096  # tokens of a sequence whose bytes are counted, which repeat exactly
_LEAST = 0.05  # share of a measurement that is left to a layer beside the stage's own work


def profile(model, file, *, dtype=torch.float32, device=None, context=4096, seconds=10.0,
            latency=5e-5, bandwidth=1e10, clock="wall", progress=None, keep=False, adapter=None):
    """Measures what the layers of a Hugging Face causal decoder cost under slimpack.torch.pipeline,
    as they are, and writes a cost file: its path. `Job(model, cost=file)` plans from it.

    model: a model, a configuration, or a name or folder of one. Of a model its configuration, its
        adapters (PEFT) and what is frozen (requires_grad) are used: one layer of each kind is made
        with random weights.
    context: the most tokens of a sequence that is measured. seconds: how long to measure layers.
    latency, bandwidth: seconds and bytes per second between ranks. In a process group of two or
        more these are measured instead; all ranks call this and slow each other as they will in
        training. Rank 0 writes what it has measured, while the others wait.
    clock: "wall", or "processor" on a CPU that others use, too: processor time, for one thread.
    progress: called with a line of text now and then.
    keep: where rank 0 finds the file, it stays as it is and no rank measures anything.
    adapter: a configuration of PEFT, such as peft.LoraConfig(r=16): the model has these adapters and
        is frozen, as peft.get_peft_model makes it.

    Raises InvalidInput for models that slimpack.torch.pipeline cannot train and where the file that
    is kept says that another part of the model is trained, and OSError where the file cannot be
    written: on all ranks.
    """
    if dtype not in DTYPES:
        raise InvalidInput(
            f"dtype is {dtype}, must be torch.float32, torch.bfloat16 or torch.float64; give one")
    if context < 32 or seconds <= 0 or latency < 0 or bandwidth <= 0:
        raise InvalidInput(
            f"context is {context}, seconds {seconds}, latency {latency}, bandwidth {bandwidth}: "
            "must be at least 32, above 0, at least 0, above 0; give such figures")
    several = dist.is_initialized() and dist.get_world_size() > 1
    blueprint = Blueprint.of(model, adapter)
    known = counted(blueprint)
    if keep and _said_by_first(Path(file).exists(), several):
        _require_same_part(Path(file), known, several)
        return Path(file)
    tell = progress or (lambda text: None)
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    clock = Clock(device, clock)
    config = blueprint.config
    positions = positions_of(config)
    context = min(context, positions)
    transfer = measured_transfer(device) if several else (latency, 1 / bandwidth)
    layers, errors = [], []
    updated = next((n for n, kind in enumerate(known.kinds) if kind.trained), 0)
    for number, kind in enumerate(known.kinds):
        tell(f"measures kind {number + 1} of {len(known.kinds)} of layers")
        lone = LoneLayer(blueprint, kind.layer, dtype, device, clock)
        if number == updated:
            optimizer, host = lone.optimizer_time(), host_fields(lone, clock)
        if number == 0:
            stage = _fit_edge(fastest_of(lone.preamble, context))
        share = seconds / len(known.kinds)
        figures, error = _measured_layer(lone, kind, stage, context, share)
        layers.append(figures)
        errors.append(error)
    tell("measures embedding and head")
    cost = cost_file(blueprint, dtype, known, layers, transfer)
    cost["autograd"] |= {"max_positions": positions, "stage": stage}
    cost |= _measured_edges(blueprint, dtype, device, clock, context, known, cost["autograd"])
    cost |= host
    cost |= {"optimizer_per_parameter": optimizer, "memory": _memory(device),
             "fit_error": max(errors), "peak_flops": peak_flops(_name(device), dtype),
             "source": f"slimpack.torch.profile of {config.model_type} on {_name(device)}"}
    return _written(Path(file), cost, several)


def positions_of(config):
    """The most tokens of a sequence that a model has positions for."""
    return getattr(config.get_text_config(), "max_position_embeddings", None) or (1 << 31) - 1


def _written(file, cost, several):
    """The file, when rank 0 has written it. All ranks raise what keeps that one from it."""
    refusal = None
    if not several or dist.get_rank() == 0:
        try:
            file.write_text(_planner.checked_cost(json.dumps(cost), str(file)), encoding="utf-8")
        except (InvalidInput, OSError) as error:
            refusal = error
    refusal = _said_by_first(refusal, several)
    if refusal is not None:
        raise refusal
    return file


def _said_by_first(item, several):
    """On all ranks what the first one gives."""
    items = [item]
    if several:
        dist.broadcast_object_list(items, src=0)
    return items[0]


def _measured_layer(lone, kind, stage, context, seconds):
    """(the layer's part of a cost file, the largest error of a fit)."""
    points = points_up_to(context, scans=kind.has_state)
    measured = in_turns(points, lone.times, seconds, lambda: None)
    # Measured times are those of a stage with one layer. The stage's own time is counted once for
    # all layers, so it is subtracted here.
    without_stage = {"nothing_backward", "elementwise_backward"}
    times, errors = {}, []
    for name in Passes._fields:
        rows = []
        for point, taken in ((point, getattr(of, name)) for point, of in measured.items()):
            beside = stage["per_pack"] + stage["per_token"] * point.tokens * point.slices
            own = taken if name in without_stage else max(taken - beside, _LEAST * taken)
            rows.append((*point, own))
        text, error = _planner.fit_packs(rows, kind.window, kind.attends)
        times[name] = json.loads(text)
        errors.append(error)
    sizes = counted_sizes(lone, kind, long_points(min(context, _LONGEST_COUNTED)))
    return layer_fields(lone, kind, times, sizes), max(errors)


def fitted_bytes(found, kind):
    """Fits a pack's cost to pairs (point, bytes)."""
    rows = [(*point, max(1.0, bytes_)) for point, bytes_ in found]
    return json.loads(_planner.fit_packs(rows, kind.window, kind.attends)[0])


def counted_sizes(lone, kind, points, fit=fitted_bytes):
    """By name of Sizes the forms of a layer's bytes in these Points. fit: what finds a form."""
    with live_bytes(lone.device) as meter:
        found = [(point, lone.bytes(point, meter)) for point in points]
    sizes = {name: fit([(point, getattr(of, name)) for point, of in found], kind)
             for name in Sizes._fields if not name.endswith("_backward_peak")}
    peaks = {f"{name}_backward_peak": _backward_peak(found, name, sizes[f"{name}_bytes"], kind, fit)
             for name in (NOTHING, ELEMENTWISE)}
    return sizes | peaks


def layer_fields(lone, kind, times, sizes):
    """A layer's part of a cost file. times: by name of Passes; sizes: those of counted_sizes."""
    graphs = {name: {"forward": times[f"{name}_forward"], "backward": times[f"{name}_backward"],
                     "bytes": sizes[f"{name}_bytes"],
                     "backward_peak": sizes[f"{name}_backward_peak"]}
              for name in (NOTHING, ELEMENTWISE)}
    kept = lone.kept(kind)
    state = {"bytes": kept.states, "gradient_bytes": kept.state_gradients,
             "products": lone.state_products()}
    return {"forward": times["full_forward"], "backward": times["full_backward"],
            "autograd": {"window": kind.window, "parameters": kind.parameters,
                         "weights": kind.weights, "kv_bytes": kept.key_values,
                         **({"state": state} if kind.has_state else {}),
                         "forward_peak": sizes["forward_peak"], **graphs}}


def _backward_peak(found, name, graph, kind, fit):
    """The graph alone is almost linear, the peak of backward only beside it."""
    both = fit([(point, getattr(of, f"{name}_bytes") + getattr(of, f"{name}_backward_peak"))
                       for point, of in found], kind)
    return {term: max(0.0, both[term] - graph[term]) for term in graph}


def _measured_edges(blueprint, dtype, device, clock, context, known, autograd):
    """Fields of embedding and head; sets the head's bytes in `autograd`."""
    embedding = fastest_of(Embedding(blueprint.config, dtype, device, clock,
                                     trained=known.trained.before > 0).times, context)
    head = Head(blueprint, dtype, device, clock)
    times = fastest_of(head.time, context)
    with live_bytes(device) as meter:
        peaks = [(tokens, (max(1, head.peak(tokens, meter)),)) for tokens, _ in times]
    autograd["head_peak"] = _fit_edge(peaks)
    return {"embedding_forward": _fit_edge(embedding),
            "embedding_backward": _fit_edge(embedding, 1) if known.trained.before else _NO_TIME,
            "head_backward": _fit_edge(times)}


def _fit_edge(measured, index=0):
    """Fits an edge's cost to one of the figures of pairs (tokens, figures)."""
    rows = [(float(tokens), float(figures[index])) for tokens, figures in measured]
    return json.loads(_planner.fit_edge(rows)[0])


def cost_file(blueprint, dtype, known, layers, transfer):
    """The fields that are not measured here."""
    config = blueprint.config
    text = config.get_text_config()
    latency, per_byte = (1e9 * seconds for seconds in transfer)
    parts = [{"forward": layer["forward"], "backward": layer["backward"], "elementwise": _NO_TIME,
              "weight_gradient": _NO_TIME, "merge": []} for layer in layers]
    widths = [_widths(text) if kind.attends else {"query_width": 0, "output_width": 0}
              for kind in known.kinds]
    size, trained = dtype.itemsize, blueprint.trained_bytes(dtype)
    return {
        "format": "slimpack-cost", "version": 4 if known.is_whole else 5,
        **({} if known.is_whole else {"trained": _trained(known, trained.weights)}),
        "model": _language_part(json.loads(config.to_json_string(use_diff=False))), "dtype": DTYPES[dtype],
        "tp": 1, "row_bytes": 0, "host_per_byte": 0, **parts[0],
        **({"more_kinds": parts[1:]} if parts[1:] else {}), "transfer_latency": latency,
        "transfer_per_byte": per_byte, "reduce_latency": latency, "reduce_per_byte": per_byte,
        "ranks_per_node": 0,
        "autograd": {
            "hidden_size": text.hidden_size, "vocab_size": text.vocab_size,
            "parameters_before": known.edges.before, "parameters_after": known.edges.after,
            "parameters_shared": known.edges.shared, "kind_of_layer": list(known.kind_of_layer),
            "layers": [layer["autograd"] | of_kind
                       for layer, of_kind in zip(layers, widths, strict=True)],
            "state_bytes": {"weights": size, "gradients": trained.gradients,
                            "optimizer": trained.optimizer}}}


def _language_part(model):
    """A configuration's values; of a model of more than text those of its language model, with the
    tie_word_embeddings of the whole model, which transformers follows."""
    text = model.get("text_config")
    if text is None:
        return model
    tied = model.get("tie_word_embeddings")
    return text if tied is None else text | {"tie_word_embeddings": tied}


def _widths(text):
    """The widths of queries and of attention's output, all heads together."""
    heads = text.num_attention_heads
    query = (getattr(text, "qk_head_dim", None) or getattr(text, "head_dim", None)
             or text.hidden_size // heads)
    return {"query_width": heads * query,
            "output_width": heads * (getattr(text, "v_head_dim", None) or query)}


def _trained(known, weight_bytes):
    """The field of parameters that are not frozen. It is one of the costs, not of the model."""
    return {"layers": [{"parameters": kind.trained, "weights": kind.trained_weights}
                       for kind in known.kinds],
            **known.trained._asdict(), "weight_bytes": weight_bytes}


def _require_same_part(file, known, several):
    """Raises InvalidInput on all ranks where a file that is kept says that other parameters are
    trained than the model's."""
    refusal = None
    if not several or dist.get_rank() == 0:
        found = json.loads(file.read_text(encoding="utf-8")).get("trained")
        if (found is None) != known.is_whole or (found and not _is_same_part(found, known)):
            trained, all_ = known.totals()
            refusal = InvalidInput(
                f"{file} was measured where another part of the model is trained than these "
                f"{trained:,} of {all_:,} parameters; give another file, or keep=False")
    refusal = _said_by_first(refusal, several)
    if refusal is not None:
        raise refusal


def _is_same_part(found, known):
    expected = _trained(known, found.get("weight_bytes"))
    return found == expected


def _memory(device):
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return share_of_memory("SC_PHYS_PAGES")


def _name(device):
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "the CPU"
