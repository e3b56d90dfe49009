"""sweep: how a job's step depends on choices, planned and measured."""

import csv
import json
import xml.etree.ElementTree as ElementTree

import pytest
from program import assert_refused, run, settings

SVG = "{http://www.w3.org/2000/svg}"


def over(*axes):
    return [word for axis in axes for word in ("--over", axis)]


def sweep(file, tmp_path, *arguments):
    """The report, the figures, the rows of the CSV and the picture."""
    done = run("sweep", file, "--json", tmp_path / "out.json", "--csv", tmp_path / "out.csv", "--svg",
               tmp_path / "out.svg", *arguments)
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "out.json").read_text())
    assert (figures["format"], figures["version"]) == ("slimpack-sweep", 1)
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return done.stdout, figures, rows, ElementTree.parse(tmp_path / "out.svg").getroot()


def test_points_are_planned_as_plan_plans_them(workspace, lengths, tmp_path):
    file = workspace.config("points")
    _, figures, _, _ = sweep(file, tmp_path, "--lengths", lengths,
                             *over("granularity=32,128", "parallel.pp=1,2,4"))
    assert [tuple(point["values"].values()) for point in figures["points"]] == [
        (g, pp) for g in ("32", "128") for pp in ("1", "2", "4")]
    for point in figures["points"]:
        done = run("plan", file, "--lengths", lengths, "--out", tmp_path / "plan.json", "--json",
                   tmp_path / "planned.json",
                   *settings([f"plan.granularity={point['values']['granularity']}",
                              f"parallel.pp={point['values']['pp']}"]))
        assert done.returncode == 0, done.stderr
        planned = json.loads((tmp_path / "planned.json").read_text())
        assert point["makespan_ns"] == planned["makespan_ns"]
        assert point["bubble"] == pytest.approx(planned["bubble_ratio"])

    def time_of_ranks(point):
        return point["makespan_ns"] * int(point["values"]["pp"])

    assert [point["ranks"] for point in figures["points"]] == 2 * [1, 2, 4]
    best = min(figures["points"], key=time_of_ranks)
    assert figures["points"][figures["best"]] == best
    for point in figures["points"]:
        assert point["times_best"] == pytest.approx(time_of_ranks(point) / time_of_ranks(best), rel=1e-9)


def test_packs_are_kept_and_a_turn_is_found(workspace, lengths, tmp_path):
    text, figures, _, _ = sweep(workspace.config("packs"), tmp_path, "--lengths", lengths,
                                *settings(["parallel.pp=4"]), *over("packs=4,8,16,32,64,128"))
    for point in figures["points"]:
        most = int(point["values"]["packs"])
        assert most / 2 < max(point["forward_packs"], point["backward_packs"]) <= most
    # The overheads of hardware figures outweigh this small model's work, so that few are best.
    (turn,) = figures["turns"]
    assert turn["too_small"] and "MicroPacks are too small from" in turn["text"]
    assert " ".join(turn["text"].split()) in " ".join(text.split())
    best, longer = (figures["points"][turn[which]] for which in ("best", "longer"))
    assert longer["makespan_ns"] > best["makespan_ns"] and longer["overhead"] > best["overhead"]
    assert turn["best"] == figures["best"]


def test_csv_and_picture_show_the_figures_of_the_json(workspace, lengths, tmp_path):
    text, figures, rows, svg = sweep(workspace.config("files"), tmp_path, "--lengths", lengths,
                                     *over("packs=4,8,16", "pp=2,4", "taper=1,0.25"))
    assert len(rows) == len(figures["points"]) == 12
    for row, point in zip(rows, figures["points"]):
        assert row.pop("fits") == "true"
        assert row.pop("why") == ""
        values = {name: row.pop(name) for name in point["values"]}
        assert values == point["values"]
        assert {name: float(value) for name, value in row.items()} == {
            name: value for name, value in point.items() if name not in ("values", "fits")}
    # Four panels with a line for each pp; of tapers it shows the best one.
    paths = list(svg.iter(f"{SVG}path"))
    assert len(paths) == 4 * 2
    taper = figures["points"][figures["best"]]["values"]["taper"]
    texts = [element.text for element in svg.iter(f"{SVG}text")]
    assert any(f"taper {taper}" in line for line in texts)
    # The time of each point stands as high as it is long: the first panel's two curves.
    shown = [point for point in figures["points"] if point["values"]["taper"] == taper]
    heights = [float(word) for path in paths[:2]
               for word in path.get("d").replace("M", "").replace("L", "").split()[1::2]]
    by_line = sorted(shown, key=lambda point: point["values"]["pp"])
    times = [point["makespan_ns"] for point in by_line]
    assert sorted(range(6), key=lambda i: heights[i], reverse=True) == sorted(
        range(6), key=lambda i: times[i])
    assert "÷ best" in text


def test_points_that_do_not_fit_are_results(workspace, lengths, tmp_path):
    text, figures, rows, svg = sweep(workspace.config("misfits"), tmp_path, "--lengths", lengths,
                                     *over("memory_cap=1kB,none"))
    tight, free = figures["points"]
    assert (tight["fits"], free["fits"]) == (False, True)
    assert "plan.memory_cap" in tight["why"]
    assert "does not fit" in text and "memory_cap 1kB: " in text
    assert [row["fits"] for row in rows] == ["false", "true"]
    assert rows[0]["makespan_ns"] == "" and rows[0]["why"] == tight["why"]
    assert [element.text for element in svg.iter(f"{SVG}text")].count("×") == 4


def test_documents_are_read_anew_where_their_keys_are_swept(workspace, lengths, tmp_path):
    _, figures, _, _ = sweep(workspace.config("contexts"), tmp_path, "--lengths", lengths,
                             *settings(["data.long_documents=truncate"]), *over("context=100,1000"))
    documents = [37 * n % 900 + 1 for n in range(1, 200)]
    assert [point["tokens"] for point in figures["points"]] == [
        sum(min(length, context) for length in documents) for context in (100, 1000)]


def test_a_list_on_standard_input_is_read_once(workspace, lengths, tmp_path):
    file = workspace.config("stdin")
    done = run("sweep", file, "--lengths", "-", *over("packs=4,8"), input=lengths.read_text())
    assert done.returncode == 0, done.stderr
    assert "standard input" in done.stdout
    done = run("sweep", file, "--lengths", "-", *over("context=100,1000"),
               input=lengths.read_text())
    assert_refused(done, "--lengths: standard input can be read once", "give a file")


@pytest.mark.parametrize("arguments, parts", [
    ([], ["--over is required"]),
    (over("packs"), ["--over packs: must be AXIS=V1,V2,…"]),
    (over("pakcs=1"), ["axis 'pakcs' is unknown", 'did you mean "packs"?']),
    (over("packs=0"), ["--over packs: 0 must be an integer from 1"]),
    (over("taper=2"), ["--over taper: 2 must be a number above 0 and at most 1"]),
    (over("granularity=coarse"), ["plan.granularity=coarse", "an integer from 1"]),
    (over("cuts=odd"), ["plan.cuts", '"any", "symmetric"']),
    (over("packs=" + ",".join(map(str, range(1, 1002)))), ["1001 points", "at most 1000"]),
    (over("pp=1,9"), ["9 pipeline stages", "4 layers", "use 1 to 4"]),
    (over("packs=4", "planner=packed"), ["plan.planner is packed", "set it to slimpack"]),
    (over("tp=1,3"), ["tp"]),
    ([*over("packs=4"), "--steps", "0"], ["--steps is 0", "1 to 10000"]),
    ([*over("packs=4"), "--data", "corpus"], ["two sources"]),
])
def test_a_mistake_is_one_line_and_leaves_no_file(workspace, lengths, tmp_path, arguments, parts):
    done = run("sweep", workspace.config("mistakes"), "--lengths", lengths, *arguments, "--json",
               tmp_path / "out.json", "--csv", tmp_path / "out.csv", "--svg", tmp_path / "out.svg")
    assert_refused(done, *parts)
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["--json", "--csv", "--svg"])
def test_what_cannot_be_written_is_found_before_any_work(workspace, lengths, tmp_path, option):
    (tmp_path / "folder").mkdir()
    others = [word for other in ("--json", "--csv", "--svg") if other != option
              for word in (other, tmp_path / f"out{other}")]
    done = run("sweep", workspace.config("unwritable"), "--lengths", lengths, *over("packs=4,8"),
               *others, option, tmp_path / "folder")
    assert_refused(done, "cannot write", "folder")
    assert "planning points" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
