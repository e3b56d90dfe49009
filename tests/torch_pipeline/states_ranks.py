"""Steps of tiny models whose layers hand on a state, in tests and on ranks."""

import random

import torch
from families import config_of, model_of
from slimpack.torch.pipeline.packs import stage_plan
from slimpack.torch.pipeline.random_plan import random_layer_begin, random_plan

LAYERS = 4
LONGEST = 150  # past two chunks of 64, which some scans have in any model


def states_case(seed, *, stages, kind, recompute="full", replicas=1):
    """(plan, documents): documents from one token up. Backward passes cut the longest one at least
    twice, unless the kind has no cuts."""
    rng = random.Random(seed)
    lengths = [1, 2, rng.randint(3, 20), rng.randint(20, 60), LONGEST]
    documents = [torch.tensor([rng.randrange(3, 97) for _ in range(n)]) for n in lengths]
    layer_begin = random_layer_begin(LAYERS, stages, rng)
    while True:
        plan = random_plan(lengths, layer_begin, rng, kind=kind, recompute=recompute,
                           replicas=replicas)
        cuts = [stage_plan(plan, of, 0).begins(["backward"]) for of in range(replicas)]
        if kind == "packed" or any(len(begins.get(len(lengths) - 1, ())) > 1 for begins in cuts):
            return plan, documents


def tiny(family, seed=1, **settings):
    return model_of(config_of(family, **settings), seed)
