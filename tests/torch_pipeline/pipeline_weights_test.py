"""Targets with weights, and losses that are means over documents: losses and gradients are those of transformers,
one document at a time."""

import itertools
import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import training_ranks
from families import config_of, model_of
from labels_ranks import EVALUATED_BY_WEIGHT, TRAINED_BY_WEIGHT, drawn_first, train_on_weights
from ranks import Ranks, outcomes, run
from slimpack import InvalidInput, LabelledTokens
from slimpack.torch import targets
from slimpack.torch.pipeline import LocalEngine, documents
from slimpack.torch.pipeline.comparison import largest_difference, largest_of
from slimpack.torch.pipeline.random_plan import random_plan
from slimpack.torch.pipeline.stage import Place
from slimpack.torch.pipeline.steps import Drawn, documents_of
from trial import BOUND, random_case, run_locally, tensors_of
from weights_ranks import Case, step_of, transformers_step

LOSSES = ("token", "document")
LAYOUTS = list(itertools.product((1, 2, 4), (1, 2), ("sliced", "packed", "symmetric")))  # pp, dp, cuts
ON_RANKS = [Case(seed, loss, stages, 4 // stages, kind) for seed, (loss, stages, kind) in enumerate(
    [("token", 4, "sliced"), ("document", 2, "sliced"), ("token", 2, "symmetric"), ("document", 1, "packed")])]


def differences(case):
    """How far a step in this process is from transformers: (of the loss, of the gradients)."""
    plan, given = case.step()
    model = case.model()
    engine, (loss, _) = run_locally(model, plan, given, loss=case.loss)
    expected, _ = transformers_step(model, given, case.loss)
    return abs(loss - expected) / expected, largest_difference(model, engine.stages)[0]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("stages", "replicas", "kind"), LAYOUTS)
def test_losses_and_gradients_are_those_of_transformers(loss, stages, replicas, kind):
    seed = LAYOUTS.index((stages, replicas, kind))
    assert max(differences(Case(seed, loss, stages, replicas, kind))) <= BOUND


def test_losses_and_gradients_of_processes_are_those_of_transformers():
    with Ranks(4) as ranks:
        said = [ranks.run(step_of, case) for case in ON_RANKS]
    for case, of_ranks in zip(ON_RANKS, said, strict=True):
        model = case.model()
        expected, divisor = transformers_step(model, case.step()[1], case.loss)
        for loss, alone, _, weight, _ in of_ranks:
            assert (loss, alone, weight) == pytest.approx((expected, expected, divisor), rel=BOUND)
        assert len({of_rank[2] for of_rank in of_ranks}) == 1
        gradients = tensors_of([of_rank[-1] for of_rank in of_ranks])
        assert largest_of(model, gradients)[0] <= BOUND, case


def shifted(document):
    """The document with a mask that lies one token behind its own."""
    labels = document.labels.roll(1)
    return LabelledTokens(document.tokens, document.tokens.where(labels != -100, -100), document.weights)


class FromTheNext:
    """weights_of, where every document gets the weights of the one before it."""

    def __init__(self):
        self._before = None

    def __call__(self, document):
        mine, self._before = self._before, document.weights
        return None if mine is None else (list(map(float, mine)) * len(document))[:len(document)]


MUTATIONS = {
    "a mask that is shifted by one": lambda patch: patch.setattr(
        documents, "weighted_targets_of", lambda document: targets.weighted_targets_of(shifted(document))),
    "weights of another document": lambda patch: patch.setattr(documents, "weights_of", FromTheNext()),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize("loss", LOSSES)
def test_a_runtime_with_a_mistake_differs(monkeypatch, mutation, loss):
    MUTATIONS[mutation](monkeypatch)
    of_loss, of_gradients = differences(Case(0, loss, 2, 1, "sliced"))
    assert of_loss > 1e-3 and of_gradients > 1e-3


def test_a_run_that_was_killed_goes_on_with_the_same_bits(tmp_path):
    """Its documents have masks and weights, and their means count."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    expected = run(2, train_on_weights, whole, 4)
    outcomes(2, train_on_weights, killed, 4, None, True)
    assert [line["step"] for line in training_ranks.lines(killed)] == [1, 2, 3, 4]
    again = run(2, train_on_weights, killed, 4, {"resume": True})
    for weights, of_other in zip(again, expected, strict=True):
        assert all(np.array_equal(weights[name], of_other[name]) for name in of_other)
    for lines_of, name in ((training_ranks.lines, "loss"), (training_ranks.evaluations, "evaluation_loss")):
        assert [line[name] for line in lines_of(killed)] == [line[name] for line in lines_of(whole)]
    model = model_of(config_of(training_ranks.MODEL, tie_word_embeddings=True), 1)
    n = training_ranks.CONTEXT
    held_out = [document[i:i + n] for document in EVALUATED_BY_WEIGHT for i in range(0, len(document), n)]
    step, evaluation = (transformers_step(model, given, "document")[0]
                        for given in (drawn_first(trained=TRAINED_BY_WEIGHT), held_out))
    assert training_ranks.lines(whole)[0]["loss"] == pytest.approx(step, rel=BOUND)
    assert training_ranks.evaluations(whole)[0]["evaluation_loss"] == pytest.approx(evaluation, rel=BOUND)


def test_weights_of_1_change_no_bit():
    plan, tokens = random_case(3, stages=2)
    model = Case(3, "token", 2, 1, "sliced").model()
    ones = [LabelledTokens(ids, ids, torch.ones(len(ids))) for ids in tokens]
    (plain, expected), (found, loss) = (run_locally(model, plan, given) for given in (tokens, ones))
    assert loss == expected
    for a, b in zip(plain.stages, found.stages, strict=True):
        assert all(torch.equal(p.grad, q.grad) for p, q in zip(a.parameters(), b.parameters(), strict=True))


@pytest.mark.parametrize(("weights", "message"), [
    ([1, 1, float("nan")], r"the weights of documents\[2\] have nan at position 2, must be from 0 to 3.4e\+38; "),
    ([1, -0.5, 1], r"have -0.5 at position 1, must be from 0"),
    ([float("inf"), 1, 1], r"have inf at position 0, must be from 0"),
    ([1, 1], r"the weights of documents\[2\] have shape \[2\], it has 3 tokens; give one weight for each"),
    (["a", 1, 1], r"the weights of documents\[2\] are no list of numbers: "),
    ([1j, 1, 1], r"are of type torch.complex128; give real numbers"),
])
def test_what_is_no_weight_is_refused(weights, message):
    ids = torch.tensor([3, 4, 5])
    given = [ids, ids, LabelledTokens(ids, ids, weights)]
    plan = random_plan([3, 3, 3], [0, 4], random.Random(1))
    with pytest.raises(InvalidInput, match=message) as raised:
        run_locally(Case(3, "token", 1, 1, "sliced").model(), plan, given)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("labels", "weights", "message"), [
    ([3, 4, 5], [1, -2, 1], r"the weights of document 7 have -2 at position 41, must be from 0"),
    ([3, 4, 5], [1, 2], r"the weights of document 7 have shape \[2\], it has 3 tokens"),
    ([3, 4], [1, 2, 1], r"document 7 has labels of shape \[2\] for 3 tokens; give one label for each token"),
])
def test_what_is_read_is_refused_by_its_document(labels, weights, message):
    drawn = Drawn(np.array([7]), np.array([40]), np.array([3]), None)
    with pytest.raises(InvalidInput, match=message):
        documents_of(drawn, random_plan([3], [0, 4], random.Random(1)), engine_of_one_stage(),
                     lambda *_: LabelledTokens([3, 4, 5], labels, weights))


def engine_of_one_stage():
    """The part of an engine that reading documents asks for."""
    return SimpleNamespace(stage=SimpleNamespace(place=Place(0, (0, 4))), groups=SimpleNamespace(replica=0))


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_of_0_are_no_targets(loss):
    """They count as little as labels of -100. Where no other target is left, loss and gradients are 0."""
    plan, tokens = random_case(3, stages=2)
    model = Case(3, loss, 2, 1, "sliced").model()
    kept = [torch.arange(len(ids)) % 3 == 1 for ids in tokens]
    by_weight, by_label = ([LabelledTokens(ids, ids, mask.double()) for ids, mask in zip(tokens, kept, strict=True)],
                           [LabelledTokens(ids, ids.where(mask, -100)) for ids, mask in zip(tokens, kept, strict=True)])
    assert all(torch.equal(targets.targets_of(a), targets.targets_of(b))
               for a, b in zip(by_weight, by_label, strict=True))
    (_, found), (_, expected) = (run_locally(model, plan, given, loss=loss) for given in (by_weight, by_label))
    assert found == expected
    nothing = [LabelledTokens(ids, ids, [0] * len(ids)) for ids in tokens]
    engine, (of_nothing, _) = run_locally(model, plan, nothing, loss=loss)
    assert of_nothing == 0
    assert not any(p.grad.any() for stage in engine.stages for p in stage.parameters() if p.grad is not None)

