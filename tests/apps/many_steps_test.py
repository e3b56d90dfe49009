"""plan and compare on many steps: the steps that training draws, and how their figures spread."""

import json
import math

import pytest
from program import assert_refused, run, settings

STEPS = 12
FIGURES = ["mean", "p50", "p95", "worst"]


def spread(values):
    """mean, p50, p95 and worst: the smallest value that so many percent do not exceed."""
    ordered = sorted(values)
    at = lambda percent: ordered[math.ceil(percent * len(ordered) / 100) - 1]
    return [pytest.approx(sum(ordered) / len(ordered)), at(50), at(95), ordered[-1]]


def steps_of(done, file):
    assert done.returncode == 0, done.stderr
    figures = json.loads(file.read_text())
    assert (figures["format"], figures["version"]) == ("slimpack-steps", 1)
    return figures["planners"]


def test_plan_spreads_the_figures_and_writes_the_longest_step(workspace, lengths, tmp_path):
    done = run("plan", workspace.config("many"), "--lengths", lengths, "--steps", STEPS, "--out",
               tmp_path / "plan.json", "--json", tmp_path / "out.json")
    (planner,) = steps_of(done, tmp_path / "out.json")
    makespans = [step["makespan_ns"] for step in planner["steps"]]
    assert len(makespans) == STEPS and len(set(makespans)) > 1
    assert [planner["makespan_ns"][name] for name in FIGURES] == spread(makespans)
    simulated = run("simulate", tmp_path / "plan.json", "--json", tmp_path / "longest.json")
    assert simulated.returncode == 0, simulated.stderr
    assert json.loads((tmp_path / "longest.json").read_text())["makespan_ns"] == max(makespans)
    rows = [line.split()[0] for line in done.stdout.splitlines() if line]
    for row in "step", "tokens/s", "bubble", "gap", "peak", "planned":
        assert row in rows


def test_steps_are_those_that_training_draws(workspace, tmp_path):
    """The dataset of the configuration: what a run of three steps trains, plan predicts."""
    output = workspace.train("many-trained")
    done = run("plan", workspace.config("many-planned"), "--steps", 3, "--out",
               tmp_path / "plan.json", "--json", tmp_path / "out.json")
    (planner,) = steps_of(done, tmp_path / "out.json")
    lines = (output / "metrics.jsonl").read_text().splitlines()
    predicted = [json.loads(line)["predicted_step_ns"] for line in lines]
    assert [step["makespan_ns"] for step in planner["steps"]] == predicted


def test_compare_gives_every_planner_the_same_steps(workspace, lengths, tmp_path):
    wanted = ["--lengths", lengths, "--steps", STEPS, *settings(["parallel.pp=2"])]
    done = run("compare", workspace.config("many"), *wanted, "--only", "slimpack,best-fit",
               "--json", tmp_path / "out.json")
    ours, other = steps_of(done, tmp_path / "out.json")
    assert [ours["planner"], other["planner"]] == ["slimpack", "best-fit"]
    tokens = lambda planner: [step["tokens_per_second"] * step["makespan_ns"]
                              for step in planner["steps"]]
    assert tokens(ours) == pytest.approx(tokens(other))
    for planner in ours, other:
        makespans = [step["makespan_ns"] for step in planner["steps"]]
        assert [planner["makespan_ns"][name] for name in FIGURES] == spread(makespans)
    ratio = other["makespan_ns"]["mean"] / ours["makespan_ns"]["mean"]
    assert f"slimpack trains {ratio:.2f} times as fast as best-fit" in done.stdout
    planned = run("plan", workspace.config("many"), *wanted, "--out", tmp_path / "plan.json",
                  "--json", tmp_path / "planned.json")
    (plans,) = steps_of(planned, tmp_path / "planned.json")
    assert [step["makespan_ns"] for step in plans["steps"]] == \
        [step["makespan_ns"] for step in ours["steps"]]


def test_steps_above_the_cap_are_counted(workspace, lengths, tmp_path):
    wanted = ["compare", workspace.config("many"), "--lengths", lengths, "--steps", STEPS,
              "--only", "first-fit", "--json", tmp_path / "out.json"]
    (free,) = steps_of(run(*wanted, *settings(["plan.memory_cap=none"])), tmp_path / "out.json")
    peaks = sorted(step["peak_bytes"] for step in free["steps"])
    cap = (peaks[0] + peaks[-1]) // 2
    done = run(*wanted, *settings([f"plan.memory_cap={cap}"]))
    (capped,) = steps_of(done, tmp_path / "out.json")
    lost = sum(step["peak_bytes"] > cap for step in capped["steps"])
    assert 0 < lost < STEPS
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("first-fit")]
    assert row.split()[-3] == str(lost)  # before "planned in" and its unit


def test_documents_may_come_from_a_distribution(workspace, tmp_path):
    wanted = ["plan", workspace.config("many"), "--out", tmp_path / "plan.json", "--json",
              tmp_path / "out.json", "--steps", 4, "--distribution"]
    (drawn,) = steps_of(run(*wanted, "uniform:100,100"), tmp_path / "out.json")
    # Sixteen documents of 100 reach 1,570 tokens.
    assert len({step["makespan_ns"] for step in drawn["steps"]}) == 1
    assert all(step["tokens_per_second"] * step["makespan_ns"] / 1e9 == pytest.approx(1600)
               for step in drawn["steps"])
    first = run(*wanted, "log-normal:5,1")
    again = run(*wanted, "log-normal:5,1", *settings(["data.seed=1"]))
    assert first.returncode == again.returncode == 0
    assert "log-normal:5,1, first 4 steps of seed 0" in first.stdout


@pytest.mark.parametrize("arguments, parts", [
    (["--steps", "0"], ["--steps is 0", "1 to 10000"]),
    (["--steps", "-3"], ["--steps is -3"]),
    (["--steps", "1000000"], ["--steps is 1000000"]),
    (["--distribution", "gauss:1,2"], ['"gauss:1,2"', "log-normal"]),
    (["--distribution", "uniform:9,3"], ["SHORTEST ≤ LONGEST"]),
    (["--distribution", "uniform:1,9", "--data", "x"], ["--data x", "--distribution uniform:1,9"]),
])
@pytest.mark.parametrize("command", ["plan", "compare"])
def test_a_mistake_is_one_line_and_leaves_no_file(workspace, tmp_path, command, arguments, parts):
    out = ["--out", tmp_path / "plan.json"] if command == "plan" else []
    done = run(command, workspace.config("many"), *out, "--json", tmp_path / "out.json", *arguments)
    assert_refused(done, *parts)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["plan", "compare", "fit"])
def test_without_documents_the_ways_to_give_them_are_named(workspace, tmp_path, command):
    config = workspace.config("no-documents")
    out = ["--out", tmp_path / "plan.json"] if command == "plan" else []
    done = run(command, config, *out, *settings(["data.prefix="]))
    assert_refused(done, f"{config}: no sequences to plan", "--lengths FILE", "--data PREFIX",
                   "--distribution KIND:A,B", "data.prefix")
    assert not list(tmp_path.iterdir())
