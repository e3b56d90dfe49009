"""One random step of a tiny model: pipelined in this process, and by plain training."""

import copy
import random

import torch
from families import config_of, model_of
from slimpack.torch.pipeline.comparison import Fp64Casts, largest_difference, plain_step
from slimpack.torch.pipeline.local import LocalEngine, stages_of
from slimpack.torch.pipeline.random_plan import KINDS, random_layer_begin, random_plan

BOUND = 1e-9
STAGES = (1, 2, 4)


def random_documents(rng, vocabulary=97, longest=120):
    """Documents from one token up; the first two have one and two."""
    lengths = [1, 2, *(rng.choice([3, rng.randint(4, longest)]) for _ in range(rng.randint(2, 5)))]
    return [torch.tensor([rng.randrange(3, vocabulary) for _ in range(n)]) for n in lengths]


def random_case(seed, layers=4, **settings):
    """(plan, documents); settings override what the seed chooses."""
    rng = random.Random(seed)
    documents = random_documents(rng)
    stages = settings.pop("stages", None) or rng.choice(STAGES)
    chosen = dict(kind=rng.choice(KINDS),
                  recompute=rng.choice(["full", "nothing", "elementwise", "by layer"]),
                  replicas=rng.choice([1, 1, 2])) | settings
    layer_begin = random_layer_begin(layers, stages, rng)
    if chosen["recompute"] == "by layer":
        chosen["recompute"] = [rng.choice(["nothing", "elementwise"]) for _ in range(layers)]
    return random_plan([len(d) for d in documents], layer_begin, rng, **chosen), documents


def run_locally(model, plan, documents, step=None, **options):
    """(the engine, (loss, load-balancing loss)) of a step on copies of a model, which stays as it
    is. step: more arguments of the engine's step; options: of the engine."""
    engine = LocalEngine(stages_of(lambda: copy.deepcopy(model), plan.layer_begin), **options)
    with Fp64Casts():
        return engine, engine.step(plan, documents, **(step or {}))


def tensors_of(arrays):
    """Gradients by name of each rank, as tensors."""
    return [{name: torch.from_numpy(array) for name, array in of_rank.items()}
            for of_rank in arrays]


def assert_equals_plain_training(family, seed, **settings):
    """The gradients of a random step, against one document at a time."""
    assert_model_equals_plain_training(model_of(config_of(family), seed), seed, **settings)


def assert_model_equals_plain_training(model, seed, **settings):
    assert_step_equals_plain_training(model, *random_case(seed, **settings))


def assert_step_equals_plain_training(model, plan, documents, plain=None):
    """The loss and gradients of a step, against one document at a time: of the model, or of `plain`, which has
    the same parameters. Returns the engine."""
    engine, (loss, _) = run_locally(model, plan, documents)
    with Fp64Casts():
        expected = plain_step(plain or model, documents)
    assert abs(loss - expected) <= BOUND * expected
    difference, name = largest_difference(model, engine.stages)
    assert difference <= BOUND, f"{name}: {difference:.2e}"
    return engine
