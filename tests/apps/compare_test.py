"""compare: one step under several planners."""

import json

import pytest
from program import LENGTHS, TOKENS, assert_refused, run, settings

PLANNERS = ["slimpack", "first-fit", "best-fit", "concatenated", "balanced", "dynapipe", "seq1f1b",
            "slimpipe", "infinipipe", "context-parallel", "dynamic-cp", "fcp", "token-balanced",
            "zeppelin"]
FIGURES = ["tokens_per_second", "mfu", "bubble", "makespan_ns", "peak_bytes", "gap"]


@pytest.fixture
def lengths(tmp_path):
    file = tmp_path / "lengths.txt"
    file.write_text("".join(f"{n + 1}\n" for n in LENGTHS))
    return file


def compare(workspace, lengths, *arguments):
    return run("compare", workspace.config("compare"), "--lengths", lengths, *arguments)


def cases(done, file):
    assert done.returncode == 0, done.stderr
    figures = json.loads(file.read_text())
    assert (figures["format"], figures["version"]) == ("slimpack-comparison", 1)
    return figures["cases"]


def test_every_planner_has_a_row_and_figures(workspace, lengths, tmp_path):
    done = compare(workspace, lengths, "--json", tmp_path / "out.json",
                   *settings(["parallel.pp=2", "parallel.dp=2"]))
    rows = cases(done, tmp_path / "out.json")
    assert [row["planner"] for row in rows] == PLANNERS
    table = [line.split()[0] for line in done.stdout.splitlines() if line]
    assert [name for name in table if name in PLANNERS][:len(PLANNERS)] == PLANNERS
    assert f"{len(LENGTHS)} sequences, {TOKENS:,} tokens" in done.stdout
    for row in rows:
        assert row["name"] == str(lengths) and row["error"] is None
        assert (row["planner"] == "slimpack") == ("tuning" not in row)
        assert row["makespan_ns"] <= row.get("published_makespan_ns", row["makespan_ns"])
        assert row["planning_seconds"] > 0 and row["makespan_ns"] > 0 and row["peak_bytes"] > 0
        assert row["tokens_per_second"] == pytest.approx(TOKENS / (row["makespan_ns"] * 1e-9))
        assert 0 <= row["bubble"] < 1 and 0 < row["mfu"] < 1 and row["gap"] >= 0
    assert "comparing planners" in done.stderr


def test_gaps_of_all_planners_are_to_one_bound(workspace, lengths, tmp_path):
    """Planners with more freedom, such as slimpipe, have lower bounds of their own."""
    done = compare(workspace, lengths, "--json", tmp_path / "out.json", *settings(["parallel.pp=4"]))
    rows = cases(done, tmp_path / "out.json")
    assert all(row["fits"] for row in rows)
    bounds = [row["makespan_ns"] / (1 + row["gap"]) for row in rows]
    assert bounds == pytest.approx([bounds[0]] * len(rows), rel=1e-9)


def test_our_row_is_what_plan_predicts(workspace, lengths, tmp_path):
    planned = run("plan", workspace.config("compare"), "--lengths", lengths,
                  *settings(["parallel.pp=2"]), "--out", tmp_path / "plan.json",
                  "--json", tmp_path / "planned.json")
    assert planned.returncode == 0, planned.stderr
    done = compare(workspace, lengths, "--only", "slimpack", "--json", tmp_path / "out.json",
                   *settings(["parallel.pp=2"]))
    (row,) = cases(done, tmp_path / "out.json")
    figures = json.loads((tmp_path / "planned.json").read_text())
    assert row["makespan_ns"] == figures["makespan_ns"]
    assert row["bubble"] == figures["bubble_ratio"]


def test_fixed_packing_is_tuned_beyond_what_plan_makes_of_it(workspace, lengths, tmp_path):
    wanted = settings(["parallel.pp=2", "plan.planner=packed"])
    planned = run("plan", workspace.config("compare"), "--lengths", lengths, *wanted,
                  "--out", tmp_path / "plan.json", "--json", tmp_path / "planned.json")
    assert planned.returncode == 0, planned.stderr
    done = compare(workspace, lengths, "--only", "best-fit", "--json", tmp_path / "out.json", *wanted)
    (row,) = cases(done, tmp_path / "out.json")
    published = json.loads((tmp_path / "planned.json").read_text())["makespan_ns"]
    if row["tuning"] == "as published":
        assert row["makespan_ns"] == published
    else:
        assert row["makespan_ns"] < published


def test_figures_name_the_job_and_say_who_fits(workspace, lengths, tmp_path):
    job = ["parallel.pp=2", "parallel.dp=2", "plan.granularity=64", "plan.recompute=auto"]
    keys = ["pp", "dp", "tp", "memory_cap_bytes", "context", "granularity"]
    def comparison(*more):
        done = compare(workspace, lengths, "--json", tmp_path / "out.json", *settings([*job, *more]))
        assert done.returncode == 0, done.stderr
        return done.stdout, json.loads((tmp_path / "out.json").read_text())
    text, free = comparison("plan.memory_cap=none")
    assert "on this layout; another one (parallel.pp, dp, tp) may suit some of them better" in text
    assert [free[key] for key in keys] == [2, 2, 1, None, 1024, 64]
    assert free["recompute"] == ["nothing", "elementwise", "attention", "mlp", "full"]
    assert all(case["fits"] for case in free["cases"])
    # A cap between what two planners need at least tells them apart.
    _, least = comparison("plan.memory_cap=1", "plan.recompute=full")
    peaks = sorted(case["peak_bytes"] for case in least["cases"] if case["peak_bytes"])
    _, capped = comparison(f"plan.memory_cap={peaks[0]}", "plan.recompute=full")
    assert capped["memory_cap_bytes"] == peaks[0] and capped["recompute"] == ["full"]
    for case in capped["cases"]:
        peak = case["peak_bytes"]
        assert case["fits"] == (peak is not None and peak <= peaks[0])
    assert {case["fits"] for case in capped["cases"]} == {True, False}


@pytest.mark.parametrize("cap", [1_450_000, 1_500_000, 1_700_000, 2_000_000])
def test_our_plan_keeps_the_cap_also_where_replicas_run_sequences_together(workspace, tmp_path, cap):
    """A replica of a group seems to need more than the others ever let it hold."""
    file = tmp_path / "many.txt"
    file.write_text("".join(f"{37 * n % 900 + 1}\n" for n in range(1, 60)) + "1500\n4000\n")
    done = compare(workspace, file, "--only", "slimpack", "--json", tmp_path / "out.json",
                   *settings(["parallel.pp=4", "parallel.dp=2", f"plan.memory_cap={cap}"]))
    (row,) = cases(done, tmp_path / "out.json")
    assert row["peak_bytes"] <= cap and row["fits"]


def test_no_tuned_planner_is_faster_than_ours(workspace, lengths, tmp_path):
    """The published setting is one of those that are tried, and ours may choose any of them."""
    for layout in ["parallel.pp=1", "parallel.dp=4"], ["parallel.pp=2", "parallel.dp=2"]:
        done = compare(workspace, lengths, "--json", tmp_path / "out.json", *settings(layout))
        ours, *others = cases(done, tmp_path / "out.json")
        assert all(ours["makespan_ns"] <= other["makespan_ns"] for other in others)
        assert "best with" in done.stdout and others[0]["tuning"] in done.stdout


def test_only_keeps_the_order_of_the_table(workspace, lengths, tmp_path):
    done = compare(workspace, lengths, "--only", "dynapipe,best-fit", "--json", tmp_path / "out.json")
    assert [row["planner"] for row in cases(done, tmp_path / "out.json")] == ["best-fit", "dynapipe"]


def test_what_exceeds_the_memory_cap_is_marked_or_refused(workspace, lengths, tmp_path):
    done = compare(workspace, lengths, "--only", "slimpack,best-fit",
                   "--json", tmp_path / "out.json", *settings(["plan.memory_cap=1000"]))
    ours, packed = cases(done, tmp_path / "out.json")
    assert "needs" in ours["error"] and all(ours[figure] is None for figure in FIGURES)
    assert packed["error"] is None and packed["peak_bytes"] > 1000
    row, tuning = [line for line in done.stdout.splitlines() if line.startswith("best-fit")]
    assert " !" in row and " !" in tuning and tuning.endswith(packed["tuning"])
    assert "! above the memory cap of 1000 B" in done.stdout


def test_a_run_has_a_bill(workspace, lengths, tmp_path):
    done = compare(workspace, lengths, "--only", "slimpack,best-fit", "--json", tmp_path / "out.json",
                   "--run-tokens", "3.6B", "--price-per-gpu-hour", "2.5", *settings(["parallel.pp=2"]))
    ours, packed = cases(done, tmp_path / "out.json")
    bill = json.loads((tmp_path / "out.json").read_text())["run"]
    assert bill["tokens"] == 3.6e9 and bill["ranks"] == 2 and bill["price_per_gpu_hour"] == 2.5
    rows = {row["name"]: row for row in bill["runs"]}
    for planner in (ours, packed):
        hours = 3.6e9 / planner["tokens_per_second"] / 3600
        assert rows[planner["planner"]]["hours"] == pytest.approx(hours)
        assert rows[planner["planner"]]["cost"] == pytest.approx(hours * 2 * 2.5)
    published = packed["published_makespan_ns"] / packed["makespan_ns"]
    assert (rows["best-fit as published"]["hours"] / rows["best-fit"]["hours"]
            == pytest.approx(published))
    assert "A run of 3.6 G tokens on 2 GPUs, each 2.50 an hour:" in done.stdout


def test_without_its_tokens_the_bill_is_for_the_configured_steps(workspace, lengths, tmp_path):
    done = compare(workspace, lengths, "--only", "slimpack", "--json", tmp_path / "out.json",
                   "--price-per-gpu-hour", "1", *settings(["train.steps=7"]))
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out.json").read_text())["run"]["tokens"] == 7 * TOKENS


@pytest.mark.parametrize("arguments, parts", [
    (["--run-tokens", "15X"], ['"15X"', "k, M, B or T"]),
    (["--run-tokens", "0"], ['"0"', "above 0"]),
    (["--price-per-gpu-hour", "nan"], ['"nan"', "2.50"]),
    (["--only", "dynapip"], ['"dynapip"', "dynapipe"]),
    (["--only", "best-fit,zzz"], ['"zzz"', "known are slimpack, first-fit"]),
    (["--set", "parallel.pp=99"], ["99"]),
])
def test_a_mistake_is_one_line_and_leaves_no_file(workspace, lengths, tmp_path, arguments, parts):
    assert_refused(compare(workspace, lengths, "--json", tmp_path / "out.json", *arguments), *parts)
    assert not (tmp_path / "out.json").exists()


def test_a_missing_length_list_is_named(workspace, tmp_path):
    assert_refused(compare(workspace, tmp_path / "nope.txt"), "nope.txt")


def test_help_names_every_planner_and_shows_an_example():
    done = run("compare", "--help")
    assert done.returncode == 0
    for name in [*PLANNERS, "slimpack compare run.toml"]:
        assert name in done.stdout
