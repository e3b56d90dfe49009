"""`slimpack validate`, costs of other machines, and plans that follow the ranks' speeds."""

import json

import pytest
from program import losses, metrics, run, settings


@pytest.fixture(scope="module")
def measured(workspace):
    """A configuration of two stages and the costs that this machine measured for it."""
    file = workspace.config("measured")
    file.write_text(file.read_text().replace("[hardware]", "[parallel]\npp = 2\n[plan_]").replace(
        "[plan_]  # says what a step costs, so that nothing is measured", ""))
    cost = workspace.folder / "cost.json"
    done = run("profile", file, "--out", cost)
    assert done.returncode == 0, done.stderr
    return file, cost


def test_validate_sets_steps_beside_their_predictions(measured, tmp_path):
    file, cost = measured
    done = run("validate", file, "--steps", 2, "--repetitions", 3, "--clock", "virtual", "--json",
               tmp_path / "validation.json", *settings([f"cost.file={cost}",
                                                        f"output.dir={tmp_path / 'out'}"]))
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "validation.json").read_text())
    assert (figures["format"], figures["version"]) == ("slimpack-validation", 1)
    assert figures["same_order"] is True
    assert "the predicted order" in done.stdout
    steps = figures["steps"]
    assert len(steps) == 2
    for step in steps:
        assert step["error"] == pytest.approx(step["predicted_ns"] / step["measured_ns"] - 1)
        assert step["replayed_error"] == pytest.approx(step["replayed_ns"] / step["measured_ns"] - 1)
        peaks = list(zip(step["predicted_peak_bytes"], step["measured_peak_bytes"], strict=True))
        assert len(peaks) == 2
        assert step["memory_error"] == pytest.approx(max(abs(p / m - 1) for p, m in peaks))
        assert step["memory_error"] < 0.02
        off = [abs(a["predicted_ns"] - a["measured_ns"]) for a in step["worst"]]
        assert len(off) == 10 and off == sorted(off, reverse=True)
        assert all(a["reason"] for a in step["worst"])
    assert figures["mean_error"] == pytest.approx(sum(abs(s["error"]) for s in steps) / 2)
    assert not (tmp_path / "out").exists()


def test_validate_fails_past_the_largest_error(measured):
    file, cost = measured
    # No prediction is right to a ten thousandth of a percent.
    done = run("validate", file, "--steps", 1, "--repetitions", 1, "--max-error", 0.0001,
               *settings([f"cost.file={cost}"]))
    assert done.returncode == 1
    assert "predicted steps are" in done.stderr.splitlines()[-1]
    assert "furthest off" in done.stdout


@pytest.mark.parametrize("arguments", [["--steps", 0], ["--repetitions", "many"], ["--max-error", -1],
                                       ["--clock", "sun"]])
def test_validate_refuses_bad_arguments(measured, arguments):
    done = run("validate", measured[0], *arguments)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and str(arguments[0]) in done.stderr


@pytest.mark.parametrize(("key", "value"), [("torch", "1.0.0"), ("processor", "Fast CPU 9000")])
def test_training_refuses_costs_of_another_machine_or_library(measured, tmp_path, key, value):
    file, cost = measured
    foreign = json.loads(cost.read_text())
    foreign["measured_on"][key] = value
    other = tmp_path / "foreign.json"
    other.write_text(json.dumps(foreign))
    use = settings([f"cost.file={other}", f"output.dir={tmp_path / 'out'}"])
    done = run("train", file, *use)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert all(part in done.stderr for part in ("foreign.json", value, "slimpack profile"))
    assert not (tmp_path / "out" / "metrics.jsonl").exists()
    # Plans are for any machine.
    assert run("plan", file, *use, "--out", tmp_path / "plan.json").returncode == 0


def test_a_stopped_profile_goes_on(measured, tmp_path):
    file, _ = measured
    cost = tmp_path / "cost.json"
    partial = tmp_path / "cost.json.partial"
    partial.write_text('{"format": "slimpack-measurements", "version": 1, "job": "", "parts": {}}')
    done = run("profile", file, "--out", cost)
    assert done.returncode == 0, done.stderr
    assert "going on" not in done.stderr  # that was another job
    assert cost.exists() and not partial.exists()
    assert "sizes that it has not seen" in " ".join(done.stdout.split())


def test_a_run_that_drifts_says_so_once(workspace):
    # Hardware figures of a GPU: every step takes far longer than predicted.
    file = workspace.config("drift")
    done = run("train", file, *settings(["train.steps=8"]))
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("warning: steps take")]
    assert len(told) == 1 and "slimpack profile" in done.stderr


def test_plans_that_follow_speeds_learn_the_same(workspace):
    plain = workspace.train("plain-speed", "train.steps=8", "parallel.dp=2", "train.dtype=fp64")
    follows = workspace.train("follow-speed", "train.steps=8", "parallel.dp=2", "train.dtype=fp64",
                              "parallel.follow_speed=true")
    assert losses(follows) == pytest.approx(losses(plain), rel=1e-9)
    # Hardware figures of a GPU: from the fourth step on, plans know how slow the ranks are.
    first, last = metrics(follows)[0], metrics(follows)[-1]
    assert last["predicted_step_ns"] > 2 * first["predicted_step_ns"]
