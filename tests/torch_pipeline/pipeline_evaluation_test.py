"""Evaluation of held-out documents: transformers' loss, and no trace in what is trained."""

import pytest
import torch
import training_ranks
from evaluation_ranks import Case, documents_of, evaluate_all, model_for
from families import config_of, model_of
from hugging_face_loss import hugging_face_loss
from ranks import outcomes, run
from slimpack.torch.pipeline.comparison import Fp64Casts
from training_ranks import CONTEXT, HELD_OUT, train

LENGTHS = (90, 1, 70, 2, 33)
CASES = {
    "windows": Case("gemma2", "sliced", LENGTHS),
    "experts": Case("qwen3_moe", "symmetric", LENGTHS, options=dict(output_router_logits=True)),
    "latent": Case("deepseek_v3", "packed", LENGTHS),
    "states": Case("olmo_hybrid", "sliced", LENGTHS),
}
REPLICATED = {
    "whole": Case("llama", "sliced", LENGTHS, replicas=2),
    "sharded": Case("llama", "sliced", LENGTHS, replicas=2, replication="sharded"),
    "one document": Case("llama", "sliced", (90,), replicas=2, replication="sharded"),
    "resharded": Case("llama", "sliced", LENGTHS, replicas=2, replication="resharded"),
}


@pytest.fixture(name="found", scope="module")
def fixture_found():
    """By case what the ranks found."""
    by_case = {}
    for ranks, cases in ((2, CASES), (4, REPLICATED)):
        of_ranks = run(ranks, evaluate_all, list(cases.values()))
        by_case.update(zip(cases, zip(*of_ranks, strict=True), strict=True))
    return by_case


@pytest.mark.parametrize("name", [*CASES, *REPLICATED])
def test_transformers_finds_the_same_loss(found, name):
    case = (CASES | REPLICATED)[name]
    documents = [tokens.tolist() for tokens in documents_of(case.lengths, 1)]
    with Fp64Casts():
        expected = hugging_face_loss(model_for(case), documents)
    for of_rank in found[name]:
        assert of_rank.loss == pytest.approx(expected, rel=1e-9)
        assert of_rank.targets == sum(case.lengths) - len(case.lengths)


@pytest.mark.parametrize("name", [*CASES, *REPLICATED])
def test_an_evaluation_leaves_nothing_behind(found, name):
    for of_rank in found[name]:
        assert of_rank.same_bits
        assert of_rank.left == []


def test_an_evaluation_keeps_less_than_a_step(found):
    for of_rank in found["windows"]:
        in_evaluation, in_step = of_rank.peaks
        assert 0 < in_evaluation < in_step
    # Whole documents are read by no later slice.
    assert [of_rank.peaks[0] for of_rank in found["latent"]] == [0, 0]


@pytest.fixture(name="evaluated", scope="module")
def fixture_evaluated(tmp_path_factory):
    """(folder, weights by rank) of a run of four steps that evaluates every third."""
    folder = tmp_path_factory.mktemp("evaluated")
    return folder, run(2, train, folder, 2, 4, "whole", training_ranks.with_held_out(3))


def test_a_run_evaluates_before_its_first_step_at_its_turns_and_at_the_end(evaluated):
    lines = training_ranks.all_lines(evaluated[0])
    assert [(line["step"], "evaluation_loss" in line) for line in lines] == [
        (0, True), (1, False), (2, False), (3, False), (3, True), (4, False), (4, True)]
    for line in training_ranks.evaluations(evaluated[0]):
        assert line.keys() == {"step", "evaluation_loss", "evaluation_documents",
                               "evaluation_tokens", "evaluation_ns", "unix_ms"}  # docs/metrics.md
        assert line["evaluation_documents"] == len(HELD_OUT)
        assert line["evaluation_tokens"] == sum(map(len, HELD_OUT))


def test_the_losses_are_those_of_the_first_and_of_the_last_weights(evaluated):
    folder, of_ranks = evaluated
    first, *_, last = training_ranks.evaluations(folder)
    sequences = [document[i:i + CONTEXT].tolist() for document in HELD_OUT
                 for i in range(0, len(document), CONTEXT)]
    model = model_of(config_of(training_ranks.MODEL, tie_word_embeddings=True), 1)
    # Norms are in fp32, and its rounding depends on the shape of what is multiplied.
    assert first["evaluation_loss"] == pytest.approx(hugging_face_loss(model, sequences), rel=1e-6)
    weights = {name: torch.from_numpy(w) for of_rank in of_ranks for name, w in of_rank.items()}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected and missing in ([], ["lm_head.weight"])
    assert last["evaluation_loss"] == pytest.approx(hugging_face_loss(model, sequences), rel=1e-6)
    assert last["evaluation_loss"] != pytest.approx(first["evaluation_loss"], rel=1e-2)


def test_sets_of_several_names_have_a_line_each(evaluated, tmp_path):
    """Together with the documents of one set, whose loss is then the mean of theirs by targets."""
    sets = {"short": HELD_OUT[1:2], "others": [*HELD_OUT[:1], *HELD_OUT[2:]]}
    weights = run(2, train, tmp_path, 2, 4, "whole", {"held_out": sets, "evaluate_every": 3})
    lines = training_ranks.evaluations(tmp_path)
    assert [(line["step"], line["evaluation_name"]) for line in lines] == [
        (step, name) for step in (0, 3, 4) for name in sets]
    together = [line["evaluation_loss"] for line in training_ranks.evaluations(evaluated[0])]
    for short, others, loss in zip(lines[::2], lines[1::2], together, strict=True):
        assert (short["evaluation_tokens"], others["evaluation_documents"]) == (5, 4)
        # Sequences of 5 tokens; of 64 + 26, 64 + 64 + 2, 1 and 64: one less of each is a target.
        expected = (4 * short["evaluation_loss"] + 278 * others["evaluation_loss"]) / 282
        assert loss == pytest.approx(expected, rel=1e-6)
    for mine, theirs in zip(weights, evaluated[1], strict=True):
        assert all((mine[name] == theirs[name]).all() for name in theirs)


def test_a_set_is_refused_by_its_name(tmp_path):
    for held_out, message in (({"a": [[5, 6]], "b": [[5]]}, "held_out['b'] has no target, so there is no loss; give "
                               "other documents"),
                              ({"": [[5, 6]]}, "held_out has a set named ''; give texts of one line as names")):
        (failed, (kind, text, _)), = outcomes(1, train, tmp_path, 1, 1, "whole", {"held_out": held_out})
        assert failed and (kind, text) == ("InvalidInput", message)


def test_documents_without_a_target_are_refused(tmp_path):
    (failed, (kind, text, _)), = outcomes(1, train, tmp_path, 1, 1, "whole",
                                          {"held_out": [[5], [], [7]]})
    assert failed and kind == "InvalidInput"
    assert text == "held_out has no target, so there is no loss; give other documents"
