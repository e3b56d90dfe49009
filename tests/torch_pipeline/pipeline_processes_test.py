"""Stages in processes of their own, over Gloo: gradients of plain training, the same bits every
time, and one cause for all where a rank fails."""

import json

import pipeline_worker
import pytest
import torch
from families import config_of, model_of
from processes import free_port, results_of
from slimpack.torch.pipeline.comparison import Fp64Casts, plain_step
from transformers import AutoModelForCausalLM
from trial import BOUND, random_case

RANKS = 4
CASES = [
    ("gemma2", 1, dict(stages=4, replicas=1, kind="sliced")),
    ("llama", 2, dict(stages=2, replicas=2, kind="sliced")),
    ("gpt_oss", 3, dict(stages=2, replicas=2, kind="symmetric",
                        recompute=["nothing", "elementwise"] * 2)),
    ("gemma3_text", 4, dict(stages=2, replicas=2, kind="packed")),
    ("deepseek_v3", 5, dict(stages=1, replicas=4, kind="sliced")),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where four processes have left what came of CASES."""
    folder = tmp_path_factory.mktemp("pipeline")
    results_of(pipeline_worker.run_cases, RANKS, RANKS, CASES, folder)
    return folder


def of_ranks(folder, number):
    return [torch.load(folder / f"{number}-{rank}.pt") for rank in range(RANKS)]


@pytest.fixture(scope="module", params=range(len(CASES)), ids=[case[0] for case in CASES])
def ran(request, folder):
    """(what the ranks say, the model after plain training)."""
    family, seed, settings = CASES[request.param]
    _, documents = random_case(seed, **settings)
    model = model_of(config_of(family), seed)
    with Fp64Casts():
        model.expected_loss = plain_step(model, documents)
    return of_ranks(folder, request.param), model


def test_gradients_on_every_rank_are_those_of_plain_training(ran):
    said, model = ran
    expected = {name: parameter.grad for name, parameter in model.named_parameters()}
    floor = 1e-5 * max(gradient.abs().max() for gradient in expected.values())
    seen = set()
    for of_rank in said:
        assert of_rank["loss"] == pytest.approx(model.expected_loss, rel=BOUND)
        for name, gradient in of_rank["gradients"].items():
            scale = max(expected[name].abs().max(), floor)
            assert (gradient - expected[name]).abs().max() <= BOUND * scale, name
            seen.add(name)
    assert seen == expected.keys()


def test_the_same_plan_gives_the_same_bits(ran):
    assert all(of_rank["same_bits"] for of_rank in ran[0])


def test_the_gradient_norm_is_that_of_the_whole_model(ran):
    said, model = ran
    gradients = [parameter.grad for parameter in model.parameters()]
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm().item()
    for of_rank in said:
        assert of_rank["norm"] == pytest.approx(norm, rel=BOUND)
        for name, clipped in of_rank["clipped"].items():
            torch.testing.assert_close(clipped, of_rank["gradients"][name] * (1e-3 / (norm + 1e-6)),
                                       rtol=1e-9, atol=0)


def test_the_timeline_has_every_action_of_every_rank(ran, folder):
    said, _ = ran
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


def test_the_ranks_write_the_model(folder):
    for number, (family, seed, _) in enumerate(CASES):
        expected = model_of(config_of(family), seed).state_dict()
        written = AutoModelForCausalLM.from_pretrained(folder / f"model-{number}",
                                                       dtype=torch.float64)
        for name, tensor in written.state_dict().items():
            assert torch.equal(tensor, expected[name]), (family, name)


@pytest.fixture(scope="module")
def ended():
    """By the way in which rank 1 failed: (rank, error, message, seconds) of every rank that
    lives."""
    found = {}
    for how, *of_rank in results_of(pipeline_worker.fail, 3, 8, [free_port(), free_port()]):
        found.setdefault(how, []).append(of_rank)
    return found


def test_when_a_rank_fails_all_end_with_its_cause_at_once(ended):
    (_, *first, _), (_, *failed, _), (_, *last, _) = ended["raise"]
    assert failed == ["ValueError", "no memory for a matrix\nat some place"]
    assert first == last == ["RanksFailed", "rank 1: no memory for a matrix"]
    assert all(seconds < 6 for *_, seconds in ended["raise"])  # before any process ends


def test_when_a_rank_is_killed_the_others_end_and_name_it(ended):
    assert [rank for rank, *_ in ended["kill"]] == [0, 2]
    for _, kind, message, seconds in ended["kill"]:
        assert kind == "RanksFailed"
        assert message.endswith("lost the connection to stage 1 (rank 1)")
        assert seconds < 6


def test_ranks_with_different_plans_are_refused(ended):
    assert [kind for _, kind, _, _ in ended["plan"]] == ["InvalidInput"] * 3
    assert all(message.startswith("the plans of ranks 0 and 1 differ; ")
               for _, _, message, _ in ended["plan"])
