"""Losses of the caller's: loss, metrics and gradients are those of the same formulas on whole documents, one at a
time, by autograd."""

import copy
import itertools
import random
from types import SimpleNamespace

import labels_ranks
import pytest
import torch
import training_ranks
from families import config_of, model_of
from losses_ranks import (
    MEANS,
    OBJECTIVES,
    OURS,
    extras_of,
    loss_of,
    loss_step_of,
    objective_step_of,
    plain_objective_step,
    plain_step,
)
from ranks import Ranks, run
from slimpack import InvalidInput, LabelledTokens
from slimpack.torch import losses
from slimpack.torch.losses import objectives
from slimpack.torch.losses.function import loss_of as function_of
from slimpack.torch.pipeline import LocalEngine, StepSampler, documents, loss
from slimpack.torch.pipeline.comparison import Fp64Casts, largest_difference, largest_of
from slimpack.torch.pipeline.local import stages_of
from slimpack.torch.pipeline.random_plan import random_plan
from slimpack.torch.targets import Targets
from trial import BOUND, random_case, run_locally, tensors_of
from weights_ranks import Case

LAYOUTS = list(itertools.product((1, 2, 4), (1, 2), ("sliced", "packed", "symmetric")))  # pp, dp, cuts
ON_RANKS = [Case(seed, mean, stages, 4 // stages, kind) for seed, (mean, stages, kind) in enumerate(
    [("token", 4, "sliced"), ("document", 2, "sliced"), ("sum", 2, "symmetric"), ("token", 1, "packed")])]


@pytest.fixture(name="ranks", scope="module")
def fixture_ranks():
    """Four processes, which all tests of this module share."""
    with Ranks(4) as ranks:
        yield ranks


@pytest.fixture(name="alone", scope="module")
def fixture_alone():
    """A process that is a job by itself."""
    with Ranks(1) as alone:
        yield alone


def far(found, expected):
    """How far a number is off, relative to numbers above 1: losses of policies may be near 0."""
    return abs(found - expected) / max(1.0, abs(expected))


def metrics_far(found, expected):
    assert found.keys() == expected.keys()
    return max((far(found[name], value) for name, value in expected.items()), default=0.0)


def differences(case, name):
    """How far a step in this process is from the plain one: (loss, metrics, gradients)."""
    plan, given = case.step()
    model, extras = case.model(), extras_of(given, case.seed, name)
    engine, (found, _) = run_locally(model, plan, given, step={"extras": extras}, loss=loss_of(name, case.loss))
    expected, metrics = plain_step(model, given, extras, name, case.loss)
    return far(found, expected), metrics_far(engine.metrics, metrics), largest_difference(model, engine.stages)[0]


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize(("number", "layout"), list(enumerate(LAYOUTS)))
def test_loss_metrics_and_gradients_are_those_of_whole_documents(name, number, layout):
    stages, replicas, kind = layout
    mean = MEANS[(number + list(OURS).index(name)) % 3]
    assert max(differences(Case(number, mean, stages, replicas, kind), name)) <= BOUND


@pytest.mark.parametrize("name", OURS)
def test_processes_find_the_same(ranks, name):
    said = [ranks.run(loss_step_of, case, name) for case in ON_RANKS]
    for case, of_ranks in zip(ON_RANKS, said, strict=True):
        _, given = case.step()
        model = case.model()
        expected, metrics = plain_step(model, given, extras_of(given, case.seed, name), name, case.loss)
        for found, of_step, alone, of_evaluation, _ in of_ranks:
            assert max(far(found, expected), far(alone, expected)) <= BOUND
            assert max(metrics_far(of_step, metrics), metrics_far(of_evaluation, metrics)) <= BOUND
        gradients = tensors_of([of_rank[-1] for of_rank in of_ranks])
        assert largest_of(model, gradients)[0] <= BOUND, case


@pytest.mark.parametrize("name", OBJECTIVES)
def test_objectives_have_the_gradients_of_whole_documents(ranks, name):
    cases = [case._replace(loss="token" if case.loss == "sum" else case.loss) for case in ON_RANKS]
    said = [ranks.run(objective_step_of, case, name) for case in cases]
    for case, of_ranks in zip(cases, said, strict=True):
        model = case.model()
        expected, logprobs = plain_objective_step(model, case.step()[1], name, case.seed)
        for found, of_rank, _ in of_ranks:
            assert far(found, expected) <= BOUND
            for ours, theirs in zip(of_rank, logprobs, strict=True):
                torch.testing.assert_close(torch.from_numpy(ours), theirs, rtol=BOUND, atol=BOUND)
        gradients = tensors_of([of_rank[-1] for of_rank in of_ranks])
        assert largest_of(model, gradients)[0] <= BOUND, case


def of_the_next_document(weigh):
    def wrong(self, coefficients):
        weigh(self, [coefficients[s - 1].repeat(len(c))[:len(c)] for s, c in enumerate(coefficients)])

    return wrong


def shifted(weigh):
    return lambda self, coefficients: weigh(self, [c.roll(1) for c in coefficients])


def objective_gradients(alone, mutation=None):
    """How far gradients of an objective are from the plain ones, of one process that is the whole job."""
    case = Case(0, "token", 1, 1, "sliced")
    (_, _, gradients), = alone.run(mutated_objective_step, case, mutation)
    model = case.model()
    plain_objective_step(model, case.step()[1], "dpo", case.seed)
    return largest_of(model, tensors_of([gradients]))[0]


MUTATIONS = {"coefficients of another document": of_the_next_document, "a mask that is shifted by one": shifted}


def mutated_objective_step(case, mutation):
    real = documents.Documents.weigh
    if mutation is not None:
        documents.Documents.weigh = MUTATIONS[mutation](real)
    try:
        return objective_step_of(case, "dpo")
    finally:
        documents.Documents.weigh = real


def test_an_objective_with_a_mistake_differs(alone):
    assert objective_gradients(alone) <= BOUND
    for mutation in MUTATIONS:
        assert objective_gradients(alone, mutation) > 1e-3


def roll_extras(monkeypatch):
    real = documents.weighted_targets_of
    monkeypatch.setattr(documents, "weighted_targets_of", lambda document: real(LabelledTokens(
        document.tokens, document.labels, document.weights,
        {key: of.roll(1, 0) for key, of in document.extras.items()})))


def extras_of_the_first(monkeypatch):
    real = documents._entry
    monkeypatch.setattr(documents, "_entry", lambda by_sequence, sequence, name: (
        by_sequence[0].new_zeros(1).expand(by_sequence[sequence].shape) if name.startswith("extras")
        else real(by_sequence, sequence, name)))


@pytest.mark.parametrize("mutation", [roll_extras, extras_of_the_first])
def test_extras_of_other_tokens_differ(monkeypatch, mutation):
    mutation(monkeypatch)
    assert min(differences(Case(0, "token", 2, 1, "sliced"), "policy")[::2]) > 1e-3


def test_blocks_of_one_row_and_of_all_rows_have_the_same_gradients(monkeypatch):
    case = Case(2, "token", 2, 1, "sliced")
    for logits in (1, 97 * 3, 1 << 24):
        monkeypatch.setitem(loss.LOGITS_AT_ONCE, "cpu", logits)
        assert max(differences(case, "policy")) <= BOUND


def test_logits_are_widened_for_a_function(monkeypatch):
    """A bf16 model's logits are handed over in fp32, and their gradient comes back in bf16."""
    seen = []

    def own(rows):
        seen.append(rows.logits_TV.dtype)
        return -rows.logprobs_T

    plan, tokens = random_case(3, stages=1)
    model = Case(3, "token", 1, 1, "sliced").model().to(torch.bfloat16)
    stages = stages_of(lambda: copy.deepcopy(model), plan.layer_begin)
    found, _ = LocalEngine(stages, loss=own).step(plan, tokens)
    plain, _ = LocalEngine(stages_of(lambda: model, plan.layer_begin)).step(plan, tokens)
    assert set(seen) == {torch.float32} and found == pytest.approx(plain, rel=1e-3)
    assert all(p.grad.dtype == torch.bfloat16 for p in stages[0].parameters())


def small():
    """(model, plan, documents) of three documents of three tokens."""
    documents = [torch.tensor([3, 4, 5]), torch.tensor([6, 7, 8]), torch.tensor([9, 10, 11])]
    return Case(3, "token", 1, 1, "sliced").model(), random_plan([3, 3, 3], [0, 4], random.Random(1)), documents


ZEROS = [torch.zeros(3)] * 3
LOGPROB = {"old_logprobs": ZEROS, "advantages": ZEROS}
MISUSES = [
    (lambda rows: -rows.logprobs_T.mean(), {}, r"the loss has shape \[\] and type torch.float\d\d for \d rows, must be one"),
    (lambda rows: (-rows.logprobs_T).tolist(), {}, r"the loss is of type list, must be a tensor with one number for each"),
    (lambda rows: None, {}, r"the loss is of type NoneType"),
    (lambda rows: rows.targets_T, {}, r"type torch.int64 for \d rows, must be one floating-point number"),
    (lambda rows: -rows.logprobs_T.detach(), {}, r"the loss does not depend on the model, so there is nothing to learn"),
    (lambda rows: -rows.logprobs_T / len(rows), {}, r"so its sum would depend on the plan's cuts; compute what rows share"),
    (lambda rows: rows.logprobs_T - rows.logprobs_T.mean(), {}, r"for a row beside \d others and \S+ beside fewer"),
    (lambda rows: (-rows.logprobs_T, [1]), {}, r"the loss returns metrics of type list; give a dict of tensors"),
    (lambda rows: (-rows.logprobs_T, {"a": 1.0}), {}, r"the loss's metric 'a' is of type float"),
    (lambda rows: (-rows.logprobs_T, {"a": rows.logprobs_T.sum()}), {}, r"the loss's metric 'a' has shape \[\]"),
    (lambda rows: rows["rewards"], {}, r"the loss takes 'rewards' of every token, the step has no extras; give step"),
    (lambda rows: rows["rewards"], LOGPROB, r"the step has advantages, old_logprobs; give"),
    (losses.PolicyLoss(), {}, r"the loss takes 'advantages' of every token"),
    (losses.PolicyLoss(kl=0.1), LOGPROB, r"the loss takes 'reference_logprobs'"),
    (losses.PolicyLoss(), {"advantages": ZEROS[:2]}, r"extras\['advantages'\] has no entry 2; give every sequence"),
    (losses.PolicyLoss(), {"advantages": [torch.zeros(4)] * 3},
     r"extras\['advantages'\]\[\d\] has shape \[4\], the document has 3 tokens; give one entry for each token"),
    (losses.PolicyLoss(), {"advantages": [1.0] * 3}, r"has shape \[\], the document has 3 tokens"),
    (losses.PolicyLoss(), {"advantages": [["a", 1, 1]] * 3}, r"extras\['advantages'\]\[\d\] are no numbers: "),
    (losses.Distillation(), {"teacher_ids": ZEROS, "teacher_logprobs": ZEROS},
     r"teacher_ids have shape \[\d\] for \d targets, teacher_logprobs \[\d\]; give \[tokens, K\] of both"),
    (losses.Distillation(), {"teacher_ids": [torch.full((3, 1), 97)] * 3, "teacher_logprobs": [torch.zeros(3, 1)] * 3},
     r"teacher_ids go from 97 to 97, the model has 97 logits; the teacher needs the model's vocabulary"),
]


@pytest.mark.parametrize(("function", "extras", "message"), MISUSES)
def test_a_loss_that_cannot_be_added_up_is_refused(function, extras, message):
    model, plan, given = small()
    with pytest.raises(InvalidInput, match=message) as raised:
        run_locally(model, plan, given, step={"extras": extras}, loss=function)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("make", "message"), [
    (lambda: LocalEngine([], loss="sequence"), r"""loss is 'sequence', must be "token", "document" or a function"""),
    (lambda: LocalEngine([], loss=3), r"loss is 3, must be"),
    (lambda: LocalEngine([], loss=losses.PolicyLoss), r"loss is <class .*PolicyLoss'>, must be"),
    (lambda: losses.CrossEntropy(mean="batch"), r"""a loss has mean 'batch', must be "token", "document" or "sum"$"""),
    (lambda: losses.CrossEntropy(label_smoothing=2), r"label_smoothing is 2, must be from 0 to 1$"),
    (lambda: losses.CrossEntropy(z_loss=-1), r"z_loss is -1, must be from 0$"),
    (lambda: losses.Distillation(temperature=0), r"temperature is 0, must be above 0$"),
    (lambda: losses.PolicyLoss(clip_high=float("nan")), r"clip_high is nan, must be from 0$"),
    (lambda: losses.PolicyLoss(kl="0.1"), r"kl is '0.1', must be from 0$"),
    (lambda: losses.dpo([0], [1], [], beta=0), r"beta is 0, must be above 0$"),
    (lambda: losses.dpo([0, 1], [2], []), r"2 chosen answers and 1 rejected ones are no pairs"),
    (lambda: losses.orpo([], []), r"0 chosen answers and 0 rejected ones are no pairs"),
])
def test_what_is_no_loss_is_refused(make, message):
    with pytest.raises(InvalidInput, match=message) as raised:
        make()
    assert "\n" not in str(raised.value)


ONES = [torch.tensor([0.0, 1.0, 1.0])] * 2


@pytest.mark.parametrize(("objective", "message"), [
    (lambda logprobs, weights: 1.0, r"the objective returns float, must return a tensor of one number"),
    (lambda logprobs, weights: logprobs[0], r"the objective returns a tensor of shape \[3\]"),
    (lambda logprobs, weights: weights[0].sum(), r"the objective does not depend on the log-probabilities"),
    (lambda logprobs, weights: (logprobs[0].sum(), 1), r"the objective returns metrics of type int; give a dict"),
    (losses.dpo([0], [2], ONES), r"a pair has sequence 2, the step has 2; give numbers of the plan's sequences"),
    (losses.dpo([0], [1], [torch.zeros(2)] * 2), r"the reference's log-probabilities have other lengths"),
    (losses.orpo([0], [-1]), r"a pair has sequence -1, the step has 2"),
    (losses.sequence_policy([1.0], ONES), r"advantages have 1 entries, the step has 2 sequences; give one for each"),
])
def test_what_is_no_objective_is_refused(objective, message):
    with pytest.raises(InvalidInput, match=message) as raised:
        objectives.value_of(objective, [torch.zeros(3)] * 2, ONES)
    assert "\n" not in str(raised.value)


def test_an_answer_without_a_target_is_refused():
    for objective in (losses.dpo([0], [1], ONES), losses.orpo([0], [1])):
        with pytest.raises(InvalidInput, match=r"sequence 1 of a pair has no target, so it has no probability"):
            objectives.value_of(objective, [torch.zeros(3)] * 2, [ONES[0], torch.zeros(3)])


def test_a_slice_of_labelled_tokens_has_its_part_of_extras():
    whole = LabelledTokens([3, 4, 5], [3, 4, 5], extras={"teacher_ids": torch.arange(6).view(3, 2)})
    assert whole[1:].extras["teacher_ids"].tolist() == [[2, 3], [4, 5]]


def test_nobody_waits_for_the_device(monkeypatch):
    """On a device without values an operation that asks for one fails."""
    monkeypatch.setitem(loss.LOGITS_AT_ONCE, "meta", 44)
    weight = torch.empty(11, 4, device="meta", requires_grad=True)
    text = SimpleNamespace(vocab_size=11)
    stage = SimpleNamespace(logits=lambda x: x @ weight.T, device=torch.device("meta"),
                            model=SimpleNamespace(config=SimpleNamespace(get_text_config=lambda: text)))
    function = function_of(losses.PolicyLoss(entropy=0.1))
    function._was_tried = True  # the comparison of a function's first rows waits, once
    found = loss.StepLoss(stage, function, 7)
    targets = Targets(torch.tensor([3, -100, 0, 10, 5]), extras={"advantages": torch.ones(5)})
    assert found.add(torch.zeros(5, 4, device="meta"), targets).shape == (5, 4)


def means_of(given):
    """(place-weighted cross-entropy, place) of the targets of parts of documents, [(part, first place)]."""
    model = model_of(config_of(training_ranks.MODEL, tie_word_embeddings=True), 1)
    loss, places, count = 0.0, 0, 0
    with Fp64Casts(), torch.no_grad():
        for part, first in given:
            log_TV = torch.log_softmax(model(input_ids=part.tokens[None], use_cache=False).logits[0], -1)
            for i in range(1, len(part)):
                if part.labels[i] != -100:
                    loss -= (first + i) * log_TV[i - 1, part.tokens[i]].item()
                    places, count = places + first + i, count + 1
    return loss / count, places / count


def test_a_trainer_writes_the_metrics_of_its_loss_for_documents_that_bring_extras(tmp_path):
    run(2, labels_ranks.train_on_extras, tmp_path, 2)
    context = training_ranks.CONTEXT
    held_out = [(d[i:i + context], i) for d in labels_ranks.EVALUATED for i in range(0, len(d), context)]
    sampler = StepSampler([len(d) for d in training_ranks.DOCUMENTS], context=context, step_tokens=200, seed=5)
    drawn = [(labels_ranks.TRAINED[d][begin:begin + n], begin)
             for d, begin, n in zip(*sampler.next_step()[:3], strict=True)]
    for lines, name, given in ((training_ranks.lines, "loss", drawn),
                               (training_ranks.evaluations, "evaluation_loss", held_out)):
        first = lines(tmp_path)[0]
        assert (first[name], first[f"{name}_place"]) == pytest.approx(means_of(given), rel=BOUND)
