"""Stages in processes of their own, over Gloo: the same bits every time, a norm, a timeline and a
model of all ranks together, and one cause for all where a rank fails."""

import json

import numpy as np
import pipeline_worker
import pytest
import torch
from families import config_of, model_of
from processes import PATIENCE
from ranks import Ranks, outcomes
from slimpack.torch.pipeline.comparison import Fp64Casts, plain_step
from transformers import AutoModelForCausalLM
from trial import BOUND, random_case

RANKS = 4
SOON = PATIENCE / 4  # seconds: without the timeout of the groups, on a busy machine, too
CASES = {
    "gemma2": dict(stages=4, replicas=1, kind="sliced"),
    "llama": dict(stages=2, replicas=2, kind="sliced"),
    "gpt_oss": dict(stages=2, replicas=2, kind="symmetric",
                    recompute=["nothing", "elementwise"] * 2),
    "gemma3_text": dict(stages=2, replicas=2, kind="packed"),
    "deepseek_v3": dict(stages=1, replicas=4, kind="sliced"),
}
SEED = 2


@pytest.fixture(scope="module")
def ranks():
    with Ranks(RANKS) as ranks:
        yield ranks


@pytest.fixture(scope="module", params=CASES)
def ran(request, ranks, tmp_path_factory):
    """(family, what the ranks say, the folder of the model that they wrote)."""
    family, folder = request.param, tmp_path_factory.mktemp("model")
    said = ranks.run(pipeline_worker.run_twice, family, SEED, CASES[family], folder)
    return family, said, folder


def test_the_same_plan_gives_the_same_bits(ran):
    for of_rank in ran[1]:
        first, second = of_rank["gradients"]
        assert of_rank["losses"][0] == of_rank["losses"][1]
        assert first.keys() == second.keys() and len(first) > 1
        assert all(np.array_equal(first[name], second[name]) for name in first)


def test_the_gradient_norm_is_that_of_the_whole_model(ran):
    family, said, _ = ran
    model = model_of(config_of(family), SEED)
    with Fp64Casts():
        plain_step(model, random_case(SEED, **CASES[family])[1])
    gradients = [parameter.grad for parameter in model.parameters()]
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm().item()
    for of_rank in said:
        assert of_rank["norm"] == pytest.approx(norm, rel=BOUND)
        for name, clipped in of_rank["clipped"].items():
            expected = of_rank["gradients"][1][name] * (1e-3 / (norm + 1e-6))
            np.testing.assert_allclose(clipped, expected, rtol=1e-9, atol=0)


def test_the_timeline_has_every_action_of_every_rank(ran):
    said = ran[1]
    timeline = json.loads(said[0]["timeline"])
    assert (timeline["format"], timeline["ranks"]) == ("slimpack-timeline", RANKS)
    assert len({of_rank["timeline"] for of_rank in said}) == 1
    for rank in range(RANKS):
        own = [span for span in timeline["spans"] if span[0] == rank]
        for kind in ("forward", "backward"):
            packs = [pack for _, of, pack, _, _ in own if of == kind]
            assert packs == list(range(len(packs)))
        times = [time for span in own for time in span[3:]]
        assert times == sorted(times)  # one thing at a time


def test_the_ranks_write_the_model(ran):
    family, _, folder = ran
    expected = model_of(config_of(family), SEED).state_dict()
    written = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).state_dict()
    assert written.keys() == expected.keys()
    assert all(torch.equal(written[name], expected[name]) for name in expected)


def ends(how):
    """By rank the (kind, message, seconds) that pipeline_worker.fail returns. Processes live until
    every rank has said it, so none of them ends by another's end."""
    return [found for _, found in outcomes(3, pipeline_worker.fail, how)]


def test_when_a_rank_fails_all_end_with_its_cause_at_once():
    (*first, _), (*failed, _), (*last, _) = said = ends("raise")
    assert failed == ["ValueError", "no memory for a matrix\nat some place"]
    assert first == last == ["RanksFailed", "rank 1: no memory for a matrix"]
    assert all(seconds < SOON for *_, seconds in said)


def test_when_a_rank_is_killed_the_others_end_and_name_it():
    first, (killed, *_), last = ends("kill")
    assert killed == "Killed"
    for kind, message, seconds in (first, last):
        assert kind == "RanksFailed"
        assert message.endswith("lost the connection to stage 1 (rank 1)")
        assert seconds < SOON


def test_a_rank_whose_message_is_lost_halfway_ends_too():
    (first, (killed, *_), last) = (found for _, found in outcomes(3, pipeline_worker.lose_a_message))
    assert killed == "Killed"
    for kind, message, seconds in (first, last):
        assert kind == "RanksFailed"
        assert message == "rank 2: lost the connection to stage 1 (rank 1)"
        assert seconds < SOON


@pytest.mark.parametrize("exchange", [1, 2])
def test_ranks_with_different_plans_are_all_refused_however_late_one_hears(exchange):
    """First they exchange what plans they have, then that all know it. One rank leaves the exchange
    after the others."""
    for _, (kind, message) in outcomes(3, pipeline_worker.differ, exchange):
        assert kind == "InvalidInput"
        assert message.startswith("the plans of ranks 0 and 1 differ; ")
