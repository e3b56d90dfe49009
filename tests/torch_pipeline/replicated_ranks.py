"""Runs on each rank of a job: steps of a tiny model on 2 stages, against plain training."""

import random
from typing import NamedTuple

import torch
import torch.distributed as dist
from families import config_of, model_of
from slimpack import LabelledTokens
from slimpack.torch import pipeline
from slimpack.torch.pipeline.adapters import base_of
from slimpack.torch.pipeline.comparison import Fp64Casts, plain_step
from slimpack.torch.pipeline.gradients import local
from slimpack.torch.pipeline.random_plan import random_plan
from torch.distributed.tensor import DTensor

STAGES, LAYERS, STEPS = 2, 4, 3
SETTINGS = dict(lr=1e-2, weight_decay=0.1)
REPLICATION = {"whole": {}, "sharded": {"shard_replicas": True},
               "resharded": {"shard_replicas": True, "reshard_after_forward": True}}


def steps_of(seed, replicas, kind="sliced"):
    """(plan, documents) of some steps. Of every second document half of the tokens are targets."""
    rng, cuts, chosen = random.Random(seed), random.Random(seed), random.Random(seed)
    for _ in range(STEPS):
        lengths = [1, *(rng.randint(2, 60) for _ in range(5))]
        documents = [torch.tensor([rng.randrange(3, 97) for _ in range(n)]) for n in lengths]
        documents[::2] = [with_half_the_targets(tokens, chosen) for tokens in documents[::2]]
        while True:  # sharded replicas need a sequence each
            plan = random_plan(lengths, [0, 1, LAYERS], cuts, replicas=replicas, kind=kind,
                               recompute="elementwise" if kind == "symmetric" else "full")
            if all(len(replica.sequences) for replica in plan.replicas):
                break
        yield plan, documents


def with_half_the_targets(tokens, rng):
    counted = torch.tensor([rng.random() < 0.5 for _ in tokens])
    return LabelledTokens(tokens, tokens.where(counted, torch.tensor(-100)))


def plain_training(model, seed, max_norm):
    """(weights by name, norms) of plain training of the whole model."""
    optimizer, norms = torch.optim.AdamW(model.parameters(), **SETTINGS), []
    for _, documents in steps_of(seed, replicas=1):
        plain_step(model, documents)
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm).item())
        optimizer.step()
        optimizer.zero_grad()
    return {name: p.detach() for name, p in model.named_parameters()}, norms


def difference(found, expected):
    return ((found - expected).abs().max() / expected.abs().max()).item()


def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


class Found(NamedTuple):
    """of_weights, of_norms: largest relative differences from plain training, of this rank's
    weights after some steps and of the norms of gradients. norms: those of plain training. kept:
    numbers of weights that this rank keeps. states: names of parameters of which the optimizer keeps
    some. whole_layers: the most layers that had whole weights at once."""

    of_weights: float
    of_norms: float
    norms: list[float]
    kept: int
    states: set[str]
    whole_layers: int


def differences(kinds, seed, max_norm, replication):
    """By family what this rank Found; kinds: by family that of the plans."""
    return {family: trained(lambda of=family: model_of(config_of(of), seed), kind, seed, max_norm, replication)
            for family, kind in kinds.items()}


def trained(make_model, kind, seed, max_norm, replication):
    """replication: a name in REPLICATION. Returns what this rank Found with the model that make_model makes, the same each time."""
    rank, world = dist.get_rank(), dist.get_world_size()
    model, whole_model = make_model(), base_of(make_model())
    stage = pipeline.Stage.from_model(model, [0, 1, LAYERS], rank % STAGES, check=False)
    engine = pipeline.Engine(stage, **REPLICATION[replication])
    optimizer = pipeline.WideAdamW(stage.parameters(), offload=replication != "whole", **SETTINGS)
    norms, whole_layers = [], []
    for layer in stage.own_layers():
        layer.register_forward_pre_hook(lambda *_: whole_layers.append(layers_with_whole_weights(stage)))
    with Fp64Casts():
        for plan, documents in steps_of(seed, world // STAGES, kind):
            engine.step(plan, documents)
            norms.append(engine.clip_grad_norm(max_norm))
            optimizer.step()
            optimizer.zero_grad()
        weights, plain_norms = plain_training(whole_model, seed, max_norm)
    of_weights = max(difference(whole(p.detach()), weights[name])
                     for name, p in stage.model.named_parameters())
    of_norms = max(abs(a - b) / b for a, b in zip(norms, plain_norms, strict=True))
    kept = sum(local(p).numel() for p in stage.parameters())
    states = {name for name, p in stage.model.named_parameters() if optimizer.state.get(p)}
    return Found(of_weights, of_norms, plain_norms, kept, states, max(whole_layers))


def layers_with_whole_weights(stage):
    return sum(all(not isinstance(p, DTensor) for p in layer.parameters()) for layer in stage.own_layers())


def of_idle_replicas(seed):
    """A step of two documents on replicas of one stage, of which all but two have none: (largest relative
    difference of a gradient from plain training's, of the loss)."""
    rng = random.Random(seed)
    documents = [torch.tensor([rng.randrange(3, 97) for _ in range(n)]) for n in (70, 9)]
    plan = random_plan([70, 9], [0, LAYERS], random.Random(seed), replicas=dist.get_world_size(), kind="sliced")
    model, whole_model = (model_of(config_of("qwen3_moe"), seed) for _ in range(2))
    engine = pipeline.Engine(pipeline.Stage.from_model(model, [0, LAYERS], 0, check=False),
                             **REPLICATION["resharded"])
    with Fp64Casts():
        loss = engine.step(plan, documents).loss
        expected = plain_step(whole_model, documents)
    plain = dict(whole_model.named_parameters())
    return max(difference(whole(p.grad), plain[name].grad) for name, p in engine.stage.model.named_parameters()
               if plain[name].grad is not None and plain[name].grad.any()), abs(loss / expected - 1)
