"""Timelines that were measured elsewhere: read in Python and drawn beside the predicted one."""

import json

import pytest
import slimpack

# Rank 0 works 60 of 100 ns, rank 1 works 30: 1 - 90 / (2 * 100).
SPANS = [[0, "forward", 0, 0, 40], [0, "optimizer", -1, 80, 100], [1, "wait_receive", 0, 0, 40],
         [1, "forward", 0, 40, 70]]


@pytest.fixture(name="step", scope="module")
def fixture_step():
    return slimpack.plan([300, 20], "demo", {"pp": 2}, "h100", memory_cap="none")


def timeline_of(spans, replicas=1):
    return slimpack.Timeline.from_json(json.dumps({
        "format": "slimpack-timeline", "version": 3, "origin": "measured", "ranks": 2,
        "replicas": replicas, "tensor": 1, "spans": spans, "memory": [],
        "peak_activation": [7, 8]}), "here")


def test_a_measured_timeline_has_its_figures():
    timeline = timeline_of(SPANS)
    assert timeline.makespan_ns == 100
    assert timeline.bubble_ratio == pytest.approx(1 - 90 / 200)
    assert timeline.peak_activation_bytes.tolist() == [7, 8]


def model_flops(lengths):
    """The FLOPs of models/demo.json: forward, and twice as much backward. A token has 2 for each weight of its
    products, a pair of a token and one before it (or itself) 4 for each channel of the heads."""
    width, inner, layers, vocabulary, keys = 128, 352, 4, 257, 64
    weights = layers * (2 * width * width + 2 * width * keys + 3 * width * inner) + width * vocabulary
    pairs = sum(n * (n + 1) / 2 for n in lengths)
    return 3 * (2 * weights * sum(lengths) + 4 * layers * width * pairs)


TRAINED = dict(loss=4.5, gradient_norm=1.0, learning_rate=1e-3, targets=250, left_out=4, reading_ns=7,
               planning_ns=8, planning_wait_ns=9)


def test_a_step_has_a_line_of_metrics(step):
    line = step.step_figures(timeline_of(SPANS), 3, [5, 5], [0, 300], **TRAINED)
    # The sequences of 300 and 20 tokens are of one document and take 100 ns.
    assert line == {
        "step": 3, "loss": 4.5, "gradient_norm": 1.0, "learning_rate": 1e-3, "documents": 1,
        "sequences": 2, "tokens": 320, "targets": 250, "padding": 0, "left_out": 4, "longest": 300,
        "clock": "wall", "step_ns": 100,
        "predicted_step_ns": round(step.makespan * 1e9),
        "tokens_per_second": pytest.approx(320 / 100e-9), "bubble": pytest.approx(1 - 90 / 200),
        "predicted_bubble": step.bubble_ratio,
        # Rank 0 runs forward for 40 ns and the optimizer for 20; rank 1 waits 40 and runs forward for 30.
        "forward_ns": 35, "backward_ns": 0, "optimizer_ns": 10, "reduction_ns": 0, "waiting_ns": 20,
        "mfu": pytest.approx(model_flops([300, 20]) / (100e-9 * 2 * 989e12)),
        "peak_activation_bytes": [7, 8],
        "predicted_peak_activation_bytes": step.peak_activation_bytes.tolist(), "reading_ns": 7,
        "planning_ns": 8, "planning_wait_ns": 9}


def test_mfu_is_that_of_the_plan_at_the_measured_speed(step):
    line = step.step_figures(timeline_of(SPANS), 3, [5, 5], [0, 300], **TRAINED)
    assert line["mfu"] == pytest.approx(step.figures["mfu"] * step.makespan / 100e-9)


def test_without_a_known_peak_there_is_no_mfu(step):
    document = json.loads(step.to_json())
    document["cost"]["peak_flops"] = 0
    unknown = slimpack.StepPlan.from_json(json.dumps(document), "here")
    assert "mfu" not in unknown.step_figures(timeline_of(SPANS), 3, [5, 5], [0, 300], **TRAINED)


def test_a_step_leaves_the_files_of_a_report(step, tmp_path):
    measured, places = timeline_of(SPANS), ([5, 6], [0, 7])
    step.write_step_files(tmp_path, measured, 3, "cpu", *places)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        "plan.json": step.to_json(),
        "measured.json": step.measured_step(measured, 3, "cpu", *places),
        "timeline.json": step.chrome_trace([step.timeline(), measured], *places)}


def test_a_timeline_comes_back_from_its_text(step):
    predicted = step.timeline()
    again = slimpack.Timeline.from_json(predicted.to_json(), "here")
    assert again.to_json() == predicted.to_json()
    assert again.makespan_ns == round(step.makespan * 1e9)


def test_a_broken_timeline_is_refused():
    with pytest.raises(slimpack.InvalidInput, match="here"):
        timeline_of([[2, "forward", 0, 0, 40]])  # there are two ranks


def test_a_trace_shows_both_and_names_the_documents(step):
    trace = json.loads(step.chrome_trace([step.timeline(), timeline_of(SPANS)], [12, 31], [0, 512]))
    assert [of["origin"] for of in trace["otherData"]["timelines"]] == ["predicted", "measured"]
    arguments = [event.get("args", {}) for event in trace["traceEvents"]]
    texts = {text for of_event in arguments for text in of_event.get("slices", [])}
    assert "document 31 [512, 532)" in texts
    assert all(text.startswith(("document 12 [", "document 31 [")) for text in texts)


@pytest.mark.parametrize("timelines, documents, message", [
    (lambda: [timeline_of(SPANS)], [1], "2 sequences"),
    (lambda: [timeline_of(SPANS, replicas=2)], [1, 2], "2 replicas"),
])
def test_a_trace_of_another_step_is_refused(step, timelines, documents, message):
    with pytest.raises(slimpack.InvalidInput, match=message):
        step.chrome_trace(timelines(), documents)
