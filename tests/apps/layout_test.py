"""layout: the tp × pp × dp on which a run trains fastest."""

import json
import xml.etree.ElementTree as ElementTree

import pytest
from program import assert_refused, run, settings

ROOM = ["plan.memory_cap=none"]


def layout(workspace, lengths, tmp_path, *arguments, overrides=ROOM):
    done = run("layout", workspace.config("layout"), "--lengths", lengths, "--json",
               tmp_path / "out.json", *settings(overrides), *arguments)
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "out.json").read_text())
    assert (figures["format"], figures["version"]) == ("slimpack-layouts", 1)
    return done.stdout, figures["searches"]


def grid(found):
    return found["tp"], found["pp"], found["dp"]


def test_every_layout_of_the_ranks_is_rated_as_plan_rates_it(workspace, lengths, tmp_path):
    text, (search,) = layout(workspace, lengths, tmp_path, "--ranks", 4, "--steps", 3)
    # Four heads and four layers: tp and pp of 1, 2 and 4.
    assert sorted(map(grid, search["layouts"])) == [(1, 1, 4), (1, 2, 2), (1, 4, 1), (2, 1, 2),
                                                    (2, 2, 1), (4, 1, 1)]
    means = [found["makespan_ns"]["mean"] for found in search["layouts"]]
    assert means == sorted(means)
    for found in search["layouts"]:
        tp, pp, dp = grid(found)
        planned = run("plan", workspace.config("layout"), "--lengths", lengths, "--steps", 3,
                      *settings([*found["settings"], *ROOM]),
                      "--out", tmp_path / "plan.json", "--json", tmp_path / "planned.json")
        assert planned.returncode == 0, planned.stderr
        (planner,) = json.loads((tmp_path / "planned.json").read_text())["planners"]
        assert found["makespans_ns"] == [step["makespan_ns"] for step in planner["steps"]]
        assert found["bound_ns"] <= found["makespan_ns"]["mean"]
        assert found["outcome"] == "rated"
    best = " × ".join(map(str, grid(search["layouts"][0])))
    assert [line for line in text.splitlines() if line.startswith(best)]
    assert "6 layouts: 6 planned." in text


def test_usual_layouts_say_what_they_lose(workspace, lengths, tmp_path):
    text, (search,) = layout(workspace, lengths, tmp_path, "--ranks", 16)
    rows = text[text.index("usual layout"):].splitlines()[2:]
    # tp as wide as four heads allow with one and with four stages, and replicas alone.
    assert [row[:13].strip() for row in rows if row[:1] != " "] == ["1 × 1 × 16", "4 × 1 × 4",
                                                                    "4 × 4 × 1"]
    best = search["layouts"][0]
    for row in rows:
        (found,) = [one for one in search["layouts"]
                    if " × ".join(map(str, grid(one))) == row[:13].strip()]
        if found is best:
            assert "the best" in row
            continue
        ratio = found["makespan_ns"]["mean"] / best["makespan_ns"]["mean"]
        assert f"{ratio:.2f} times the best step" in row
    for found in search["layouts"]:
        if found["outcome"] == "rated":
            assert found["work_ns"] + found["wait_ns"] + found["end_ns"] == \
                pytest.approx(found["makespan_ns"]["mean"], abs=3)


def test_several_sizes_of_steps_are_compared(workspace, lengths, tmp_path):
    text, searches = layout(workspace, lengths, tmp_path, "--ranks", 2, "--step-tokens", "2000,8000",
                            "--steps", 2)
    assert [search["step_tokens"] for search in searches] == [2000, 8000]
    for search in searches:
        assert search["step_tokens"] <= search["tokens"] < search["step_tokens"] + 1024
    rows = text[text.index("tokens/s"):].split("\n\n")[0].splitlines()[2:]
    assert len(rows) == 6  # of three layouts and two sizes
    assert sum("8.0 k" in row for row in rows) == 3


def test_machines_and_contexts_are_compared_and_billed(workspace, lengths, tmp_path):
    arguments = ["--hardware", "h100,a100", "--context", "512,1024", "--ranks", 2, "--steps", 2,
                 "--run-tokens", "3.6M", "--price-per-gpu-hour", "10"]
    text, searches = layout(workspace, lengths, tmp_path, *arguments)
    assert [(search["hardware"], search["context"]) for search in searches] == [
        (name, context) for name in ("H100 SXM", "A100 SXM 80GB") for context in (512, 1024)]
    best = max(searches, key=lambda search: search["layouts"][0]["tokens_per_second"])
    bill = json.loads((tmp_path / "out.json").read_text())["run"]
    first = bill["runs"][0]
    # 3.6 million tokens at so many a second are a thousand hours by that speed, on two GPUs.
    assert first["hours"] == pytest.approx(1000 / best["layouts"][0]["tokens_per_second"])
    assert first["cost"] == pytest.approx(20 * first["hours"])
    assert first["name"].endswith(f", machines {best['hardware']}, context {best['context']:,}")
    # A run of each search, and the usual layouts of the best one.
    hours = [run["hours"] for run in bill["runs"]]
    assert len(hours) >= 4 and hours[:4] == sorted(hours[:4])
    assert f"data.context={best['context']}" in "".join(text.split()).replace("--set", " ")


def test_the_picture_has_a_cell_for_every_layout(workspace, lengths, tmp_path):
    _, (search,) = layout(workspace, lengths, tmp_path, "--ranks", 4, "--svg", tmp_path / "out.svg")
    svg = ElementTree.parse(tmp_path / "out.svg").getroot()
    texts = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert [text for text in texts if text.startswith("tp ")] == ["tp 1", "tp 2", "tp 4"]
    assert [text for text in texts if text.startswith("pp ")] == ["pp 1", "pp 2", "pp 4"]
    cells = list(svg.iter("{http://www.w3.org/2000/svg}rect"))[1:]
    assert len(cells) == len(search["layouts"]) == 6
    assert [cell.get("stroke-width") for cell in cells].count("3") == 1
    assert sum(text.startswith("dp ") for text in texts) == 6


def test_layouts_without_memory_say_so(workspace, lengths, tmp_path):
    # The states of 48,000 parameters take some 0.8 MB of one rank.
    text, (search,) = layout(workspace, lengths, tmp_path, "--ranks", 4,
                             overrides=["hardware.memory_bytes=700000"])
    outcomes = {found["outcome"] for found in search["layouts"]}
    assert outcomes & {"model too large", "step too large"}
    assert "with too little memory for" in text


@pytest.mark.whole
def test_measured_costs_of_several_tp_can_be_given(workspace, lengths, tmp_path):
    config = workspace.measured_config("layout-measured")
    files = []
    for tp in 1, 2:
        files.append(tmp_path / f"tp{tp}.json")
        done = run("profile", config, *settings([f"parallel.tp={tp}"]), "--out", files[-1])
        assert done.returncode == 0, done.stderr
    def found(*arguments):
        done = run("layout", config, "--lengths", lengths, "--ranks", 4, *settings(ROOM), "--json",
                   tmp_path / "out.json", "--steps", 1, *arguments)
        assert done.returncode == 0, done.stderr
        (search,) = json.loads((tmp_path / "out.json").read_text())["searches"]
        return sorted(map(grid, search["layouts"]))
    assert found("--costs", ",".join(map(str, files))) == [(1, 1, 4), (1, 2, 2), (1, 4, 1),
                                                           (2, 1, 2), (2, 2, 1)]
    assert found(*settings([f"cost.file={files[1]}", "parallel.tp=2"])) == [(2, 1, 2), (2, 2, 1)]


def test_no_run_file_is_needed(workspace, lengths, tmp_path):
    workspace.config("bare")
    hardware = tmp_path / "machine.toml"
    hardware.write_text('name = "machine"\npeak_flops = 1e12\n')
    done = run("layout", "--model", workspace.folder / "bare-model.json", "--hardware", hardware,
               "--ranks", 4, "--lengths", lengths, "--context", 1024, "--step-tokens", 4000)
    assert done.returncode == 0, done.stderr
    assert "bare-model on 4 ranks, steps of 4,000 tokens" in done.stdout


@pytest.mark.parametrize("arguments, parts", [
    ([], ["no model", "--model CONFIG.json"]),
    (["--model", "nothing.json"], ["no costs", "--hardware FILE or --costs FILES"]),
    (["run", "--ranks", "-1"], ["--ranks is -1, must be 1 to 1048576"]),
    (["run", "--ranks", "7000000"], ["--ranks is 7000000"]),
    (["run", "--steps", "0"], ["--steps is 0"]),
    (["run", "--step-tokens", "0"], ["data.step_tokens is 0, must be"]),
    (["run", "--context", "-5"], ["context"]),
    (["run", "--costs", "no-such.json"], ["no-such.json"]),
    (["run", "--hardware", "no-such.toml"], ["no-such.toml"]),
])
def test_a_mistake_is_one_line_and_leaves_no_file(workspace, lengths, tmp_path, arguments, parts):
    if arguments[:1] == ["run"]:
        arguments = [workspace.config("layout"), *arguments[1:]]
    done = run("layout", *arguments, "--lengths", lengths, "--json", tmp_path / "out.json", "--svg",
               tmp_path / "out.svg")
    assert_refused(done, *parts)
    assert not list(tmp_path.iterdir())


def test_documents_may_be_those_of_a_setting(workspace, tmp_path):
    """Without a run file."""
    workspace.config("set")
    hardware = tmp_path / "machine.toml"
    hardware.write_text('name = "machine"\npeak_flops = 1e12\n')
    bare = ["layout", "--model", workspace.folder / "set-model.json", "--hardware", hardware,
            "--ranks", 2, "--context", 1024, "--step-tokens", 1000]
    assert_refused(run(*bare), "slimpack: no sequences to plan", "--distribution", "data.prefix")
    corpus = workspace.folder / "corpus"
    done = run(*bare, *settings([f"data.prefix={corpus}"]))
    assert done.returncode == 0, done.stderr
    assert f"{corpus}, first 4 steps of seed 0" in done.stdout
