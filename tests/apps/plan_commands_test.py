"""data, plan and simulate from the command line: what one writes, the next reads."""

import json
import re

import pytest
from program import LENGTHS, TOKENS, assert_refused, run, settings


@pytest.mark.parametrize("planner", ["slimpack", "packed", "slimpipe", "zeppelin", "context-parallel",
                                     "token-balanced"])
def test_simulate_predicts_what_plan_predicted(workspace, tmp_path, planner):
    wanted = settings(["parallel.pp=2", f"plan.planner={planner}"])
    planned = run("plan", workspace.config("plan"), *wanted,
                  "--out", tmp_path / "plan.json", "--json", tmp_path / "planned.json")
    assert planned.returncode == 0, planned.stderr
    simulated = run("simulate", tmp_path / "plan.json", "--json", tmp_path / "simulated.json",
                    "--timeline", tmp_path / "trace.json")
    assert simulated.returncode == 0, simulated.stderr
    before = json.loads((tmp_path / "planned.json").read_text())
    after = json.loads((tmp_path / "simulated.json").read_text())
    assert before.pop("planner") == planner
    assert before.pop("planning_ns") > 0
    assert after == before
    assert (after["sequences"], after["tokens"]) == (len(LENGTHS), TOKENS)
    assert after["makespan_ns"] >= after["lower_bound_ns"] > 0
    spans = [e for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
             if e["ph"] == "X"]
    end = max(e["ts"] + e["dur"] for e in spans)  # microseconds
    assert end * 1000 == pytest.approx(after["makespan_ns"], abs=1)
    for text in (planned.stdout, simulated.stdout):
        assert re.search(r"^makespan ", text, re.MULTILINE)


def test_plan_says_how_many_layers_compute_what_again(workspace, tmp_path):
    def plan(name, *wanted):
        done = run("plan", workspace.config(name), *settings(wanted),
                   "--out", tmp_path / "plan.json", "--json", tmp_path / "planned.json")
        assert done.returncode == 0, done.stderr
        figures = json.loads((tmp_path / "planned.json").read_text())
        by_layer = json.loads((tmp_path / "plan.json").read_text())["plan"]["recompute"]
        assert figures["recompute"] == {name: by_layer.count(name) for name in by_layer}
        return figures, by_layer, done.stdout

    peak = lambda figures: max(s["peak_activation_bytes"] for s in figures["stages"])
    full, by_layer, text = plan("full", "plan.recompute=full")
    assert by_layer == ["full"] * 4
    assert re.search("^computed again +full$", text, re.MULTILINE)
    roomy, by_layer, _ = plan("roomy", "plan.recompute=auto")
    assert by_layer == ["nothing"] * 4
    assert peak(roomy) > peak(full)
    # On the way from one to the other, layers differ under some cap.
    mixed = False
    for part in range(1, 10):
        cap = peak(full) + (peak(roomy) - peak(full)) * part // 10
        figures, by_layer, text = plan("capped", "plan.recompute=auto", f"plan.memory_cap={cap}")
        assert peak(figures) <= cap
        if len(set(by_layer)) > 1:
            mixed = True
            assert re.search(r"^computed again +\d layers? \w+, \d \w+", text, re.MULTILINE)
    assert mixed


def test_rows_are_offloaded_where_the_run_has_a_device(workspace, tmp_path):
    def plan(name, *wanted):
        done = run("plan", workspace.config(name), *settings(wanted),
                   "--out", tmp_path / "plan.json", "--json", tmp_path / "planned.json")
        if done.returncode != 0:
            return done, None
        return done, json.loads((tmp_path / "planned.json").read_text())

    peak = lambda figures: max(s["peak_activation_bytes"] for s in figures["stages"])
    roomy, kept = plan("kept", "train.device=cuda")
    assert kept["host_bytes"] == 0 and "pinned host memory" not in roomy.stdout
    done, offloaded = plan("offloaded", "train.device=cuda", "plan.recompute=offload")
    assert offloaded["recompute"] == {"offload": 4}
    assert peak(offloaded) < peak(kept)
    # Rows of one stage, all on the host at some moment: 32 hidden, 32 of q and of attention's
    # output, 96 of gate and up, each of 4 bytes, and 16 of log-sum-exp.
    assert offloaded["host_bytes"] <= TOKENS * 4 * (4 * (32 + 32 + 32 + 32 + 96) + 16)
    assert re.search(r"^pinned host memory +[\d.]+ \w+ of a rank$", done.stdout, re.MULTILINE)
    simulated = run("simulate", tmp_path / "plan.json")
    assert "pinned host memory" in simulated.stdout, simulated.stderr
    # Left to the planner, it is a choice where there is a device and a way to the host.
    auto = ["plan.recompute=auto", f"plan.memory_cap={(peak(kept) + peak(offloaded)) // 2}",
            "train.device=cuda", "hardware.host_bandwidth=1e15"]
    _, chosen = plan("chosen", *auto)
    assert "offload" in chosen["recompute"]
    for setting in ("train.device=cpu", "hardware.host_bandwidth=0"):
        _, figures = plan("without", *auto, setting)
        assert "offload" not in figures["recompute"]
    unknown, _ = plan("unknown", "train.device=cuda", "plan.recompute=offload",
                      "hardware.host_bandwidth=0")
    assert_refused(unknown, "hardware.host_bandwidth", "choose another policy")


def test_a_length_list_plans_like_the_dataset_that_it_is_of(workspace, tmp_path):
    file = workspace.config("lengths")
    done = run("plan", file, "--out", tmp_path / "data.json")
    assert done.returncode == 0, done.stderr
    lengths = json.loads((tmp_path / "data.json").read_text())["plan"]["lengths"]
    assert sorted(lengths) == sorted(n + 1 for n in LENGTHS)  # an end of document each
    (tmp_path / "lengths.txt").write_text("".join(f"{n}\n" for n in lengths))
    done = run("plan", file, "--lengths", tmp_path / "lengths.txt",
               "--out", tmp_path / "list.json")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "list.json").read_text() == (tmp_path / "data.json").read_text()


def test_inspect_counts_what_build_wrote(workspace, tmp_path):
    done = run("data", "inspect", workspace.folder / "corpus", "--json", tmp_path / "lengths.json")
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "lengths.json").read_text())
    assert f"{len(LENGTHS)} documents, {TOKENS:,} tokens" in done.stdout
    assert str(TOKENS) in json.dumps(figures)


@pytest.mark.parametrize("text, parts", [
    ("5\n10\nabc\n", ["line 3", "'abc'"]),
    ("5\n0\n", ["line 2", "'0'"]),
    ("-3\n", ["line 1", "'-3'"]),
    ("7\n1.5\n", ["line 2", "'1.5'"]),
    ("99999999999999999999\n", ["line 1", "99999999999999999999"]),
])
def test_a_bad_line_of_a_length_list_is_named(workspace, tmp_path, text, parts):
    (tmp_path / "lengths.txt").write_text(text)
    done = run("plan", workspace.config("bad-lengths"),
               "--lengths", tmp_path / "lengths.txt", "--out", tmp_path / "plan.json")
    assert_refused(done, "lengths.txt", *parts, "correct or remove")
    assert [p.name for p in tmp_path.iterdir()] == ["lengths.txt"]


def test_an_empty_length_list_is_refused(workspace, tmp_path):
    (tmp_path / "lengths.txt").write_text("")
    assert_refused(run("plan", workspace.config("no-lengths"),
                       "--lengths", tmp_path / "lengths.txt", "--out", tmp_path / "plan.json"),
                   "lengths.txt")


def test_plan_says_that_it_has_no_costs(workspace, tmp_path):
    file = workspace.config("no-costs")
    file.write_text(file.read_text().replace("[hardware]", ""))
    assert_refused(run("plan", file, "--out", tmp_path / "plan.json"),
                   "cost.file", "slimpack profile", "[hardware]")


def test_costs_without_the_memory_of_a_rank_need_a_cap_or_none(workspace, tmp_path):
    """Costs lack the memory if their profile was made before profiles recorded it."""
    file = workspace.config("no-memory")
    plan = ["--out", tmp_path / "plan.json"]
    done = run("plan", file, *plan)
    assert done.returncode == 0, done.stderr
    known = json.loads((tmp_path / "plan.json").read_text())["cost"]
    assert known["memory"] > 0
    cost = tmp_path / "old-cost.json"
    cost.write_text(json.dumps(known | {"memory": 0}))
    lengths = tmp_path / "lengths.txt"
    lengths.write_text("300\n40\n")
    use = settings([f"cost.file={cost}"])
    for command in (["plan", file, *plan], ["compare", file, "--lengths", lengths],
                    ["train", file]):
        assert_refused(run(*command, *use), "how much memory a rank has", "'slimpack profile'",
                       "plan.memory_cap", '"none"')
    assert_refused(run("fit", file, *use), "memory of a rank is not known", "'slimpack profile'")
    for cap in ("none", "80GB"):
        done = run("plan", file, *plan, *use, *settings([f"plan.memory_cap={cap}"]))
        assert done.returncode == 0, done.stderr
    # The memory that is left is no cap where the run asks for none.
    cost.write_text(json.dumps(known | {"memory": 1_500_000}))
    assert_refused(run("plan", file, *plan, *use), "activations need")
    assert run("plan", file, *plan, *use, *settings(["plan.memory_cap=none"])).returncode == 0


@pytest.fixture(scope="module")
def plan_text(workspace):
    file = workspace.folder / "whole-plan.json"
    done = run("plan", workspace.config("tampered"), *settings(["parallel.pp=2"]),
               "--out", file)
    assert done.returncode == 0, done.stderr
    return file.read_text()


def without_a_slice(plan):
    plan["plan"]["replicas"][0]["backward"][0].pop()


def slice_twice(plan):
    packs = plan["plan"]["replicas"][0]["forward"]
    packs.append([packs[0][0]])


def longer_sequence(plan):
    plan["plan"]["lengths"][0] += 1


def another_format(plan):
    plan["format"] = "something else"


def no_plan(plan):
    del plan["plan"]


def negative_cost(plan):
    plan["cost"]["forward"]["per_token"] = -1


def shortened_schedule(plan):
    (name,) = [k for k in plan if "schedule" in k]
    value = plan[name]
    plan[name] = value[: len(value) // 2] if isinstance(value, str) else value[:-1]


@pytest.mark.parametrize("tamper", [without_a_slice, slice_twice, longer_sequence, another_format,
                                    no_plan, negative_cost, shortened_schedule])
def test_a_plan_that_was_changed_is_refused(plan_text, tmp_path, tamper):
    plan = json.loads(plan_text)
    tamper(plan)
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    done = run("simulate", tmp_path / "plan.json", "--json", tmp_path / "figures.json")
    assert_refused(done, "plan.json")
    assert not (tmp_path / "figures.json").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\0\0\0", "{}"])
def test_a_file_that_is_no_plan_is_refused(tmp_path, text):
    (tmp_path / "plan.json").write_text(text)
    assert_refused(run("simulate", tmp_path / "plan.json"), "plan.json")


def test_a_plan_cut_short_is_refused(plan_text, tmp_path):
    (tmp_path / "plan.json").write_text(plan_text[: len(plan_text) // 2])
    assert_refused(run("simulate", tmp_path / "plan.json"), "plan.json")
