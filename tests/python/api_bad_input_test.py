"""Whatever Python hands over: an answer, or one line with value, rule and remedy. No crash, no leak."""

import gc
import resource

import numpy as np
import pytest
import slimpack
from generated import examples
from hypothesis import given
from hypothesis import strategies as st

MODEL = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256,
    "max_position_embeddings": 8192,
}


def planned(lengths, **changes):
    job = {"model": MODEL, "parallel": {"pp": 2, "dp": 2}, "hardware": "h100", **changes}
    return slimpack.plan(lengths, **job)


@pytest.mark.parametrize(("lengths", "message"), [
    ([], r"no sequences .* give 1 or more"),
    ([5, 0], r"lengths\[1\] is 0, must be from 1 to 2147483647; leave empty"),
    ([5, -1], r"lengths\[1\] is -1"),
    ([2**31], r"lengths\[0\] is 2147483648"),
    ([1.5], r"type float64, must be whole numbers; convert"),
    (["a"], r"must be whole numbers"),
    ([[1, 2]], r"2 dimensions, must have 1"),
    ([True], r"type bool"),
    ([9000], r"9,?000.*8,?192"),
])
def test_lengths(lengths, message):
    with pytest.raises(slimpack.InvalidInput, match=message):
        planned(lengths)


@pytest.mark.parametrize(("lengths", "message"), [
    ([5, -1], r"lengths\[1\] is -1, must be from 0 to 2147483647"),
    ([2**40], r"lengths\[0\] is 1099511627776, must be from 0 to 2147483647"),
    (np.array([1, 2**63], np.uint64), r"lengths\[1\] is 9223372036854775808, must be at most"),
    ([2**70], r"must be whole numbers"),
    ([[1, 2], [3]], r"lengths are no list of numbers"),
    (None, r"0 dimensions, must have 1"),
])
def test_lengths_that_no_dataset_has(lengths, message):
    for use in (slimpack.length_statistics, lambda given: slimpack.split_documents(given, 128),
                slimpack.Job(MODEL, hardware="h100").sequence_costs):
        with pytest.raises(slimpack.InvalidInput, match=message):
            use(lengths)


@pytest.mark.parametrize("context", [0, -1, 2.5, None, "128", 2**64, True])
def test_a_context_that_is_no_number_of_tokens(context):
    with pytest.raises(slimpack.InvalidInput, match="context is .*, must be a whole number from 1 to"):
        slimpack.split_documents([5], context)


@pytest.mark.parametrize("stages", [[0, 2.5, 4], [0, 2**40, 4], [0, None, 4], ["0", 2, 4]])
def test_stages_that_are_no_whole_numbers(stages):
    job = slimpack.Job(MODEL, {"pp": 2}, "h100")
    with pytest.raises(slimpack.InvalidInput, match="layer_begin is .*, must be a whole number"):
        job.with_stages(stages)


@pytest.mark.parametrize(("documents", "begins", "message"), [
    ([0], [0, 0], "1 documents and 2 begins, the plan has 2 sequences"),
    ([0, -1], [0, 0], "a document's number is -1, must be a whole number"),
    ([0, 1], [0, 2**64], "begins is 18446744073709551616, must be"),
    ([0, 1], [0, 1.5], "begins is 1.5, must be"),
])
def test_places_of_sequences_that_are_none(documents, begins, message):
    step = planned([5, 7])
    timeline = step.timeline()
    for name in (lambda: step.measured_step(timeline, 1, "cpu", documents, begins),
                 lambda: step.chrome_trace([timeline], documents, begins)):
        with pytest.raises(slimpack.InvalidInput, match=message):
            name()


@pytest.mark.parametrize(("changes", "message"), [
    ({"model": "llama-9"}, r"'llama-9' is no file and no name .* llama-3-8b"),
    ({"model": 5}, r"type int, must be a path, a name, a dict"),
    ({"model": {**MODEL, "hidden_size": "x"}}, r"hidden_size"),
    ({"model": {**MODEL, "num_hidden_layers": 0}}, r"num_hidden_layers"),
    ({"model": {"model_type": "bert"}}, r"\"bert\" is not supported"),
    ({"parallel": {"pp": 0}}, r"parallel.pp is 0, must be"),
    ({"parallel": {"pq": 2}}, r"\"pq\" is unknown .*\"pp\""),
    ({"parallel": {"pp": 5}}, r"5"),
    ({"parallel": 3}, r"type int, must be a dict"),
    ({"hardware": "h9000"}, r"'h9000' is no file .* h100"),
    ({"hardware": {"linear_flops": -1}}, r"linear_flops"),
    ({"hardware": None}, r"nothing says what a step costs"),
    ({"memory_cap": "20 apples"}, r"memory_cap"),
    ({"planner": "slowpack"}, r"plan.planner .*\"slimpack\""),
    ({"dtype": "int8"}, r"train.dtype"),
    ({"context": 4}, r"5 tokens, the context is 4; split documents first"),
    ({"run": "missing.toml"}, r"cannot read the run configuration missing.toml"),
])
def test_settings(changes, message):
    with pytest.raises(slimpack.InvalidInput, match=message) as error:
        planned([5], **changes)
    assert "\n" not in str(error.value)


def test_unknown_keywords_are_named():
    with pytest.raises(TypeError, match=r"'granularitee'; the planner takes .*granularity"):
        planned([5], granularitee=64)


@given(lengths=st.lists(st.integers(-2, 9000), max_size=40),
       pp=st.integers(-1, 6), dp=st.integers(-1, 5), tp=st.integers(-1, 4),
       granularity=st.sampled_from([None, 0, 1, 64, 128, 10**6]),
       cap=st.sampled_from([None, "none", "1KiB", "1MiB", 10**9, -5, "x"]),
       planner=st.sampled_from(["slimpack", "packed", "other"]))
@examples(150)
def test_any_job_is_planned_or_refused(lengths, pp, dp, tp, granularity, cap, planner):
    try:
        step = planned(lengths, parallel={"pp": pp, "dp": dp, "tp": tp}, granularity=granularity,
                       memory_cap=cap, planner=planner)
    except slimpack.InvalidInput as refusal:
        text = str(refusal)
        assert "\n" not in text and len(text) > 20
        return
    assert step.lengths.tolist() == lengths
    assert len(step.replicas) == dp and step.stages == pp
    tokens = sum(pack.tokens / pack.replicas for r in step.replicas for pack in r.forward)
    assert tokens == pytest.approx(sum(lengths))


@given(st.dictionaries(st.sampled_from([*MODEL, "rope_scaling", "head_dim", "extra"]),
                       st.one_of(st.none(), st.booleans(), st.integers(-5, 10**20), st.floats(),
                                 st.text(max_size=5), st.lists(st.integers(), max_size=2))))
@examples(150)
def test_any_model_is_planned_or_refused(changes):
    try:
        planned([100, 200], model={**MODEL, **changes})
    except slimpack.InvalidInput as refusal:
        assert "\n" not in str(refusal)


@given(st.text(max_size=200))
@examples(100)
def test_any_text_is_refused_as_a_plan(text):
    with pytest.raises(slimpack.InvalidInput):
        slimpack.StepPlan.from_json(text)


def resident_kib():
    gc.collect()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.whole
def test_plans_and_refusals_leak_nothing():
    lengths = np.full(2000, 700)

    def rounds(count):
        for _ in range(count):
            step = planned(lengths)
            views = [pack.begin for r in step.replicas for pack in r.forward]
            step.timeline()
            del step, views
            with pytest.raises(slimpack.InvalidInput):
                planned([0])

    rounds(10)  # fills the allocator's caches
    before = resident_kib()
    rounds(40)
    one = planned(lengths)
    size = len(one.to_json()) / 1024  # KiB; a plan in memory is larger
    assert resident_kib() - before < 20 * size
