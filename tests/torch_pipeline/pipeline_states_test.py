"""Layers that hand on a state train in slices as whole documents do, in fp64."""

import copy
import functools
import itertools
import json
import os
import random
import sys

import pipeline_worker
import pytest
import slimpack.torch
import torch
from families import WITH_STATES, config_of
from ranks import Ranks
from slimpack import StepPlan
from slimpack.torch.pipeline import mixers
from slimpack.torch.pipeline.comparison import (
    Fp64Casts,
    gradients_of,
    largest_difference,
    largest_of,
    plain_step,
)
from slimpack.torch.pipeline.local import LocalEngine, stages_of
from slimpack.torch.pipeline.random_plan import KINDS, random_plan
from slimpack.torch.pipeline.states import States
from states_ranks import LAYERS, states_case, tiny
from trial import BOUND, STAGES, assert_step_equals_plain_training, run_locally, tensors_of

HOW = [  # by turns
    dict(kind="sliced", stages=2),
    dict(kind="sliced", stages=4, recompute="offload"),
    dict(kind="symmetric", stages=2, recompute="elementwise"),
    dict(kind="symmetric", stages=4, recompute=["nothing", "elementwise"] * 2),
    dict(kind="sliced", stages=1),
    dict(kind="packed", stages=2, recompute="nothing"),
]
ALONE = [(family, number, HOW[number % len(HOW)]) for number, family in enumerate(WITH_STATES)]
RANKS = 4
# On processes, by turns: cut differently, alike and not at all; on 1, 2 and 4 stages.
ON_PROCESSES = {
    "olmo_hybrid": dict(kind="sliced", stages=4),
    "qwen3_next": dict(kind="sliced", stages=2),
    "kimi_linear": dict(kind="symmetric", stages=2, recompute="nothing"),
    "nemotron_h": dict(kind="sliced", stages=4),
    "bamba": dict(kind="symmetric", stages=2, recompute="elementwise"),
    "falcon_h1": dict(kind="sliced", stages=2),
    "mamba2": dict(kind="sliced", stages=1),
    "lfm2_moe": dict(kind="packed", stages=2),
    "jamba": dict(kind="sliced", stages=2),
    "mamba": dict(kind="symmetric", stages=4, recompute="nothing"),
}

ON_RANKS = list(ON_PROCESSES.items())
if os.environ.get("SLIMPACK_FAMILIES") == "all":
    ON_RANKS = [(family, dict(kind=kind, stages=stages))
                for family, stages, kind in itertools.product(WITH_STATES, STAGES, KINDS)]


@pytest.mark.parametrize(("family", "number", "how"), ALONE, ids=list(WITH_STATES))
def test_gradients_equal_plain_training(family, number, how):
    assert_step_equals_plain_training(tiny(family, number), *states_case(number, **how))


@pytest.fixture(scope="module", name="ranks")
def fixture_ranks():
    with Ranks(RANKS) as ranks:
        yield ranks


@pytest.mark.parametrize(
    ("family", "settings"), ON_RANKS,
    ids=[f"{family}-pp{of['stages']}-{of['kind']}" for family, of in ON_RANKS])
def test_gradients_on_processes_equal_plain_training(ranks, family, settings):
    settings = settings | dict(replicas=RANKS // settings["stages"])
    losses, gradients = zip(*ranks.run(pipeline_worker.step, family, 3, settings, states_case), strict=True)
    _, documents = states_case(3, **settings)
    model = tiny(family, 3)
    with Fp64Casts():
        expected = plain_step(model, documents)
    assert losses == pytest.approx([expected] * RANKS, rel=BOUND)
    difference, name = largest_of(model, tensors_of(gradients))
    assert difference <= BOUND, name


def plan_of(lengths, forward, backward, stages=1, recompute="full"):
    """Forward passes first."""
    layer_begin = [LAYERS * stage // stages for stage in range(stages + 1)]
    content = json.loads(random_plan(lengths, layer_begin, random.Random(1),
                                     recompute=recompute).to_json())
    order = [f"F{i}" for i in range(len(forward))] + [f"B{i}" for i in range(len(backward))]
    content["plan"]["replicas"] = [dict(sequences=list(range(len(lengths))), forward=forward,
                                        backward=backward)]
    content["schedules"] = ["".join(",".join(f"{s}{a}" for a in order) + "\n"
                                    for s in range(stages))]
    return StepPlan.from_json(json.dumps(content), "plan")


def documents_of(lengths):
    return [torch.arange(3, 3 + n) % 90 + 3 for n in lengths]


# A scan that takes states, one that takes none, one whose module takes the state itself for one
# token, and a convolution alone.
@pytest.mark.parametrize("family", ["mamba2", "mamba", "kimi_linear", "lfm2"])
def test_slices_of_one_token_have_exact_gradients(family):
    singles = [[[0, token, token + 1]] for token in range(5)]
    plan = plan_of([5], singles, singles[::-1])
    assert_step_equals_plain_training(tiny(family), plan, documents_of([5]))


def test_stages_without_attention_or_with_an_mlp_alone_train():
    plan = plan_of([40, 9], [[[0, 0, 30], [1, 0, 9]], [[0, 30, 40]]],
                   [[[0, 11, 40]], [[0, 0, 11], [1, 0, 9]]], stages=4)
    engine = assert_step_equals_plain_training(tiny("nemotron_h"), plan, documents_of([40, 9]))
    attends = [bool(stage.division.attention.windows) for stage in engine.stages]
    hand_on = [bool(stage.division.observed.mixers) for stage in engine.stages]
    assert (attends, hand_on) == ([False, True, False, False], [True, False, False, False])


def test_the_loss_may_be_another():
    # The mean over documents that have a target of the mean over each one's targets.
    model = tiny("mamba2")
    plan, documents = states_case(4, kind="sliced", stages=2)
    engine, (loss, _) = run_locally(model, plan, documents, loss="document")
    long = [document for document in documents if len(document) > 1]
    with Fp64Casts():
        means = [model(input_ids=document[None], labels=document[None], use_cache=False).loss
                 for document in long]
        expected = sum(means) / len(long)
        expected.backward()
    assert loss == pytest.approx(expected.item(), rel=BOUND)
    difference, name = largest_difference(model, engine.stages)
    assert difference <= BOUND, name


def test_frozen_layers_leave_nothing_behind():
    model = tiny("olmo_hybrid")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("layers.2" in name or "lm_head" in name)
    assert_step_equals_plain_training(model, *states_case(2, kind="sliced", stages=2))


def test_a_cut_keeps_one_state_of_each_kind():
    # lfm2's convolutions are 3 wide in each of 32 channels, in fp64; layers 0 and 2 have one. The
    # forward pass cuts at 6, the backward one at 5: until F1 both states of stage 0 are there, then
    # that of 5, and in B0 its gradient. Keys of layer 1 are on stage 1: layers 1 to 3.
    state = 32 * 3 * 8
    forward, backward = [[[0, 0, 6]], [[0, 6, 10]]], [[[0, 5, 10]], [[0, 0, 5]]]
    content = json.loads(plan_of([10], forward, backward, stages=2).to_json())
    content["plan"]["layer_begin"] = [0, 1, LAYERS]
    plan = StepPlan.from_json(json.dumps(content), "plan")
    engine, _ = run_locally(tiny("lfm2"), plan, documents_of([10]))
    assert engine.peak_bytes[0] == 2 * state


@pytest.mark.parametrize("family", ["qwen3_next", "qwen3_5_text"])
def test_casts_to_fp32_cost_what_other_chunks_cost_plain_training(monkeypatch, family):
    plan, documents = states_case(5, kind="sliced", stages=2)
    model, with_other_chunks = tiny(family), tiny(family)
    engine = LocalEngine(stages_of(lambda: copy.deepcopy(model), plan.layer_begin))
    engine.step(plan, documents)
    plain_step(model, documents)
    code = sys.modules[type(model).__module__]
    monkeypatch.setattr(code, "torch_chunk_gated_delta_rule", functools.partial(
        code.torch_chunk_gated_delta_rule, chunk_size=48))
    plain_step(with_other_chunks, documents)
    of_chunks, _ = largest_of(model, [gradients_of(with_other_chunks)])
    of_slices, _ = largest_difference(model, engine.stages)
    assert BOUND < of_slices <= 4 * of_chunks


LEAVE = States.leave_gradient
FORGOTTEN = {  # what a runtime does instead
    "documents": (mixers.ByDocument, "__call__", lambda self, *args, **kwargs: self._own(
        *args, **{name: None if value is self._cache else value
                  for name, value in kwargs.items()})),
    "gradients": (States, "leave_gradient", lambda *_: None),
    # Only those of a sequence's last cut arrive.
    "earlier gradients": (States, "leave_gradient", lambda self, place, gradient: (
        place[2] == self._backward_begins[place[1]][-1] and LEAVE(self, place, gradient))),
    # The state of the first cut that is kept, in a sequence that forward and backward cut differently.
    "places": (States, "read", lambda self, passes, place, device: min(
        (of, state) for of, state in self._states.items() if of[:2] == place[:2])[1]),
    # The state of another document's cut.
    "sequences": (States, "read", lambda self, passes, place, device: next(
        (state for of, state in self._states.items() if of[0] == place[0] and of[1] != place[1]),
        self._states[place])),
}


def difference(family):
    plan, documents = states_case(1, kind="sliced", stages=2)
    model = tiny(family)
    engine, _ = run_locally(model, plan, documents)
    with Fp64Casts():
        plain_step(model, documents)
    return largest_difference(model, engine.stages)[0]


@pytest.mark.parametrize("forgotten", FORGOTTEN)
@pytest.mark.parametrize("family", ["olmo_hybrid", "mamba"])
def test_a_runtime_that_mixes_states_up_fails(monkeypatch, family, forgotten):
    monkeypatch.setattr(*FORGOTTEN[forgotten])
    monkeypatch.setattr("slimpack.torch.pipeline.memory.Memories.are_empty", lambda _: True)
    assert difference(family) > 1e-3


@pytest.mark.parametrize("forgotten", FORGOTTEN)
def test_check_finds_a_runtime_that_mixes_states_up(monkeypatch, forgotten):
    monkeypatch.setattr(*FORGOTTEN[forgotten])
    monkeypatch.setattr("slimpack.torch.pipeline.memory.Memories.are_empty", lambda _: True)
    assert slimpack.torch.check(config_of("olmo_hybrid")).gradient_error > 1e-3
