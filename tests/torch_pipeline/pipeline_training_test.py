"""Training runs of a pipeline: plans ahead, metrics, timelines, and checkpoints that give the same
bits."""

import json
import subprocess

import numpy as np
import pytest
import torch
import training_ranks
from families import config_of, model_of
from processes import BUILD
from ranks import outcomes, run
from replicated_ranks import REPLICATION
from slimpack import InvalidInput
from slimpack.torch.pipeline import Checkpoints, Stage, StepSampler
from training_ranks import train

METRICS = {"step", "loss", "gradient_norm", "learning_rate", "documents", "sequences", "tokens",
           "targets", "padding", "left_out", "longest", "clock", "step_ns", "forward_ns", "backward_ns",
           "optimizer_ns", "reduction_ns", "waiting_ns", "mfu", "reading_ns", "predicted_step_ns", "tokens_per_second", "bubble",
           "predicted_bubble", "peak_activation_bytes", "predicted_peak_activation_bytes",
           "planning_ns", "planning_wait_ns", "unix_ms"}  # docs/metrics.md


@pytest.fixture(name="whole", scope="module")
def fixture_whole(tmp_path_factory):
    """(folder, weights by rank) of a run of four steps on two stages that never stopped."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, run(2, train, folder, 2, 4)


def assert_same_bits(runs, others):
    for weights, of_other in zip(runs, others, strict=True):
        assert weights.keys() == of_other.keys()
        assert all(np.array_equal(weights[name], of_other[name]) for name in weights)


def losses(folder):
    return [line["loss"] for line in training_ranks.lines(folder)]


def test_each_step_has_a_line_of_metrics(whole):
    lines = training_ranks.lines(whole[0])
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    for line in lines:
        assert line.keys() == METRICS
        assert line["tokens"] >= 200 and line["longest"] <= 64
        # Every token is a target but the first of each sequence.
        assert line["targets"] == line["tokens"] - line["sequences"]
        assert (line["padding"], line["left_out"]) == (0, 0) and line["reading_ns"] > 0
        busy = sum(line[f"{part}_ns"] for part in ("forward", "backward", "optimizer", "reduction"))
        assert busy / line["step_ns"] == pytest.approx(1 - line["bubble"], abs=1e-6)
        assert line["mfu"] > 0
        assert 0 < line["bubble"] < 1 and len(line["peak_activation_bytes"]) == 2
    assert lines[-1]["loss"] < lines[0]["loss"]
    assert lines[1]["learning_rate"] < lines[0]["learning_rate"]  # the scheduler moved on


def test_the_timeline_shows_prediction_and_measurement(whole):
    trace = json.loads((whole[0] / "timeline.json").read_text())
    predicted, measured = trace["otherData"]["timelines"]
    assert (predicted["origin"], measured["origin"]) == ("predicted", "measured")
    passes = [{(event["tid"], event["name"]) for event in trace["traceEvents"]
               if event.get("cat") in ("forward", "backward") and event["pid"] == process}
              for process in (0, 1)]
    assert passes[0] == passes[1] and len(passes[0]) >= 4
    named = [event for event in trace["traceEvents"] if event.get("cat") == "forward"]
    assert all(text.startswith("document ") for event in named for text in event["args"]["slices"])
    assert any(event.get("cat") == "optimizer" for event in trace["traceEvents"])


def test_a_report_shows_the_last_step(whole, tmp_path):
    done = subprocess.run([BUILD / "slimpack", "report", whole[0], "--out", tmp_path / "page.html",
                           "--json", tmp_path / "page.json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page, last = json.loads((tmp_path / "page.json").read_text()), training_ranks.lines(whole[0])[-1]
    assert page["timelines"]["measured"]["makespan_ns"] == last["step_ns"]
    assert page["timelines"]["predicted"]["makespan_ns"] == last["predicted_step_ns"]
    assert len(page["documents"]) == last["sequences"]


@pytest.mark.parametrize("replication", REPLICATION)
def test_a_resumed_run_has_the_bits_of_one_that_never_stopped(tmp_path, replication):
    never, stopped = tmp_path / "never", tmp_path / "stopped"
    expected = run(4, train, never, 2, 4, replication)
    run(4, train, stopped, 2, 2, replication)
    got = run(4, training_ranks.resume, stopped, 2, 4, replication)
    assert_same_bits(expected, got)
    assert losses(stopped) == losses(never)


@pytest.mark.parametrize("replication", REPLICATION)
def test_a_resumed_run_in_bf16_has_the_bits_of_one_that_never_stopped(tmp_path, replication):
    # The weights and moments that AdamW keeps in fp32 are in the checkpoint.
    never, stopped, narrow = tmp_path / "never", tmp_path / "stopped", {"dtype": torch.bfloat16}
    expected = run(4, train, never, 2, 4, replication, narrow)
    run(4, train, stopped, 2, 2, replication, narrow)
    got = run(4, training_ranks.resume, stopped, 2, 4, replication, narrow)
    assert_same_bits(expected, got)
    assert losses(stopped) == losses(never)


def test_a_checkpoint_of_shares_on_two_stages_loads_whole_on_one(whole, tmp_path):
    run(4, train, tmp_path, 2, 2, "sharded")
    of_one, = run(1, training_ranks.resume, tmp_path, 1, 4)
    for weights in whole[1]:
        for name, weight in weights.items():
            np.testing.assert_allclose(of_one[name], weight, rtol=1e-7, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("where", ["tensors", "name"])
def test_a_run_that_is_killed_while_it_saves_keeps_the_last_checkpoint(whole, tmp_path, where):
    outcomes(2, training_ranks.train_and_die, tmp_path, where)
    assert Checkpoints(tmp_path / "checkpoints").steps() == [2]
    assert list((tmp_path / "checkpoints").glob(".partial-*"))
    assert_same_bits(whole[1], run(2, training_ranks.resume, tmp_path, 2, 4))
    assert not list((tmp_path / "checkpoints").glob(".partial-*"))
    assert losses(tmp_path) == losses(whole[0])


def test_documents_of_the_next_step_are_read_while_one_trains_on_the_ends():
    first, middle, last = run(3, training_ranks.take_slowly, 3)
    for steps, threads, _ in (first, last):
        assert len(steps) == 3
        assert all(given == drawn and ahead for given, drawn, ahead in steps)
        assert [name.rpartition("_")[0] for name in threads] == ["slimpack reader"]
    assert [given for given, *_ in middle[0]] == [0, 0, 0] and middle[1] == []
    assert first[2] == middle[2] == last[2]  # where the sampler stands


@pytest.mark.parametrize("failing, code, message", [
    (training_ranks.fail_to_plan, "InvalidInput", "no plan fits"),
    (training_ranks.diverge, "RunFailed", "the gradient norm is "),
])
def test_all_ranks_end_where_training_cannot_go_on(tmp_path, failing, code, message):
    kinds = []
    for failed, (kind, text, _) in outcomes(2, failing, tmp_path):
        assert failed and message in text
        kinds.append(kind)
    assert code in kinds and set(kinds) <= {code, "RanksFailed"}

def test_weights_that_are_not_finite_are_never_saved_and_a_lower_rate_goes_on(tmp_path):
    """The third step's rate is beyond fp64. The one checkpoint that was to stay is of the second."""
    for _, (kind, text, _) in outcomes(2, training_ranks.train_at_rates, tmp_path, 2, 4,
                                       [1e-3, 1e-3, float("inf")], {"keep_last": 1}):
        assert kind == "RunFailed"
        assert "made weights that are not finite numbers" in text and "after 2 of 4 steps" in text
        assert "goes on from" in text and "step-00000002" in text
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    assert checkpoints.steps()[-1] == 2
    run(2, training_ranks.train_at_rates, tmp_path, 2, 4, [1e-3] * 4, {"keep_last": 1})
    assert checkpoints.steps() == [4] and len(losses(tmp_path)) == 4


def test_a_checkpoint_from_which_no_step_succeeds_is_set_aside(tmp_path):
    """Weights of 1e200 are finite, their squares are not: the third step has no gradient."""
    for _, (kind, text, _) in outcomes(2, training_ranks.train_at_rates, tmp_path, 2, 4,
                                       [1e-3, 1e200, 1e200], {"keep_last": 1}):
        assert kind == "RunFailed" and "training has diverged" in text
        assert "diverged-step-00000002" in text and text.endswith("step-00000001)")
    assert Checkpoints(tmp_path / "checkpoints").steps() == [1]
    assert (tmp_path / "checkpoints" / "diverged-step-00000002").is_dir()
    run(2, training_ranks.train_at_rates, tmp_path, 2, 4, [1e-3] * 4, {"keep_last": 1})
    assert [line["step"] for line in training_ranks.lines(tmp_path)] == [1, 2, 3, 4]


def test_bad_weights_are_told_from_divergence(tmp_path):
    for _, (_, text, _) in outcomes(2, training_ranks.diverge, tmp_path):
        assert "before any update" in text and "not the learning rate" in text


def test_a_checkpoint_with_weights_that_are_not_finite_is_passed_over(tmp_path):
    """An older version saved such a checkpoint: sound by its checksums."""
    run(2, training_ranks.train_and_save_infinity, tmp_path, 2)
    assert Checkpoints(tmp_path / "checkpoints").steps() == [1, 2]
    run(2, training_ranks.train_at_rates, tmp_path, 2, 3, [1e-3] * 3, {"keep_last": 3})
    assert [line["step"] for line in training_ranks.lines(tmp_path)] == [1, 2, 3]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_model_whose_weights_are_not_finite_is_refused_by_the_tensor(tmp_path, value):
    model = model_of(config_of("llama", tie_word_embeddings=True), 1, torch.float32)
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[2, 1] = value
    model.save_pretrained(tmp_path)
    with pytest.raises(InvalidInput, match="layers.1.mlp.up_proj.weight holds values that are not "
                                           "finite"):
        Stage.from_pretrained(tmp_path, [0, model.config.num_hidden_layers], 0)


def test_a_step_without_targets_moves_no_weight():
    for loss, norm, same, warned in run(2, training_ranks.step_without_targets):
        assert loss == 0 and norm == 0 and same
        assert warned in ([], ["the step has no target, so no token is predicted and no weight is "
                               "updated; give documents of two tokens or more, or other labels"])


def test_steps_in_which_no_token_is_predicted_are_left_out(tmp_path):
    found = run(2, training_ranks.train_on_short_documents, tmp_path)
    assert found[0] == found[1] == [[3], [3], [3]]


@pytest.mark.parametrize("lengths, context", [([1, 1, 1], 8), ([5, 9], 1), ([0, 1], 8)])
def test_documents_in_which_no_token_is_predicted_are_refused(lengths, context):
    with pytest.raises(InvalidInput, match="no token is predicted"):
        StepSampler(lengths, context=context, step_tokens=8)


def test_a_run_does_not_start_over_another(whole):
    (failed, (kind, text, _)), _ = outcomes(2, train, whole[0], 2, 6)
    assert failed and kind == "InvalidInput"
    assert text.endswith("give resume=True to go on with it, or another folder")
