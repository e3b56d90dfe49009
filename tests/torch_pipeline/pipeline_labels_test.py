"""Documents of which not all tokens are targets: gradients and losses are those of transformers with
labels of -100."""

import random

import labels_ranks
import numpy as np
import pytest
import torch
import training_ranks
from families import config_of, model_of
from labels_ranks import EVALUATED, drawn_first, none, only_the_third, train_on_labels
from ranks import outcomes, run
from slimpack import LabelledTokens
from slimpack.torch.pipeline.comparison import Fp64Casts, largest_difference
from trial import BOUND, random_case, run_locally


def transformers_loss(model, documents):
    """Mean loss over the targets of all documents, by the model's own loss function."""
    count = sum(int((document.labels[1:] != -100).sum()) for document in documents)
    return sum(model(input_ids=d.tokens[None], labels=d.labels[None], num_items_in_batch=count,
                     use_cache=False).loss for d in documents if len(d) > 1)


def labelled(documents, seed):
    rng = random.Random(seed)
    share = rng.choice([0.1, 0.5, 0.9])
    masks = [torch.tensor([rng.random() < share for _ in tokens]) for tokens in documents]
    masks[-1][:] = False  # a document without a target
    masks[2][-1] = True
    return [LabelledTokens(tokens, tokens.where(mask, torch.tensor(-100)))
            for tokens, mask in zip(documents, masks, strict=True)]


@pytest.mark.parametrize("family", ["llama", "gemma2", "qwen3"])
@pytest.mark.parametrize("seed", range(8))
def test_gradients_are_those_of_transformers_with_these_labels(family, seed):
    plan, tokens = random_case(seed)
    documents = labelled(tokens, seed)
    model = model_of(config_of(family), seed)
    engine, (loss, _) = run_locally(model, plan, documents)
    with Fp64Casts():
        expected = transformers_loss(model, documents)
        expected.backward()
    assert loss == pytest.approx(expected.item(), rel=BOUND)
    difference, name = largest_difference(model, engine.stages)
    assert difference <= BOUND, f"{name}: {difference:.2e}"


def test_labels_beside_the_documents_take_the_place_of_theirs():
    plan, tokens = random_case(3)
    documents = labelled(tokens, 3)
    model = model_of(config_of("llama"), 3)
    _, (loss, _) = run_locally(model, plan, documents)
    for given in (tokens, labelled(tokens, 4)):
        engine, _ = run_locally(model, plan, tokens)
        with Fp64Casts():
            again, _ = engine.step(plan, given, [document.labels for document in documents])
        assert again == loss


@pytest.fixture(name="whole", scope="module")
def fixture_whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder, run(2, train_on_labels, folder, 2, 4)


def test_a_run_has_the_losses_of_transformers(whole):
    model = model_of(config_of(training_ranks.MODEL, tie_word_embeddings=True), 1)
    n = training_ranks.CONTEXT
    held_out = [document[i:i + n] for document in EVALUATED for i in range(0, len(document), n)]
    with Fp64Casts(), torch.no_grad():
        step, evaluation = (transformers_loss(model, documents).item()
                            for documents in (drawn_first(), held_out))
    assert training_ranks.lines(whole[0])[0]["loss"] == pytest.approx(step, rel=BOUND)
    assert training_ranks.evaluations(whole[0])[0]["evaluation_loss"] == pytest.approx(evaluation,
                                                                                     rel=BOUND)


def test_a_run_that_goes_on_has_the_same_bits(whole, tmp_path):
    run(2, train_on_labels, tmp_path, 2, 2)
    again = run(2, train_on_labels, tmp_path, 2, 4, {"resume": True})
    for weights, of_other in zip(again, whole[1], strict=True):
        assert all(np.array_equal(weights[name], of_other[name]) for name in of_other)
    assert ([line["loss"] for line in training_ranks.lines(tmp_path)]
            == [line["loss"] for line in training_ranks.lines(whole[0])])


def test_a_step_without_a_target_is_left_out_with_a_warning(tmp_path):
    for trained, warned, weights in run(2, labels_ranks.train_where_few_have_targets, tmp_path,
                                        only_the_third):
        assert trained == [[12], [12]]  # the third of six documents, of two epochs
        assert all(np.isfinite(weight).all() for weight in weights.values())
        assert set(warned) in (set(), {"a step is left out: none of its 3 tokens is a target"})
    first, second = training_ranks.lines(tmp_path)
    assert [first["step"], second["step"]] == [1, 2]
    # In each epoch of six the third has some place: p before it in the first, 5 - p behind it.
    assert first["left_out"] <= 5 <= first["left_out"] + second["left_out"] <= 10


def test_documents_without_any_target_are_refused(tmp_path):
    for failed, (kind, text, _) in outcomes(2, labels_ranks.train_where_few_have_targets, tmp_path, none):
        assert failed and kind == "InvalidInput"
        assert text == ("no document has a target, so there is nothing to learn; give labels other "
                        "than -100")
