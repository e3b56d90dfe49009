"""slimpack report: pages of runs and plans, and what it refuses. The page in a browser: report_page_test.py."""

import json
import shutil
from xml.etree import ElementTree

import pytest
from program import assert_refused, metrics, run, with_full_disk


@pytest.fixture(scope="module")
def trained(workspace):
    """The folder of a run of three steps with its report."""
    done = run("train", workspace.config("reported"), "--set", "parallel.pp=2", "--report")
    assert done.returncode == 0, done.stderr
    assert f"  {workspace.folder / 'reported' / 'report.html'}\n" in done.stdout
    return workspace.folder / "reported"


@pytest.fixture(scope="module")
def plan(workspace, tmp_path_factory):
    file = tmp_path_factory.mktemp("plan") / "plan.json"
    done = run("plan", workspace.config("planned"), "--set", "parallel.pp=2", "--out", file)
    assert done.returncode == 0, done.stderr
    return file


@pytest.fixture
def copied(trained, tmp_path):
    """A copy of the run to damage."""
    return shutil.copytree(trained, tmp_path / "run", ignore=shutil.ignore_patterns("checkpoints"))


def data_of(page):
    text = page.read_text(encoding="utf-8")
    begin = text.index('id="data">') + len('id="data">')
    return json.loads(text[begin:text.index("</script>", begin)])


def test_training_writes_the_page_that_report_writes(trained, tmp_path):
    done = run("report", trained, "--out", tmp_path / "page.html", "--json", tmp_path / "page.json")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path}/page.html: open it in a browser\n"
    assert (tmp_path / "page.html").read_bytes() == (trained / "report.html").read_bytes()
    assert data_of(tmp_path / "page.html") == json.loads((tmp_path / "page.json").read_text())


def test_the_page_of_a_run_has_the_runs_figures(trained):
    data = data_of(trained / "report.html")
    lines = metrics(trained)
    last = lines[-1]
    assert data["timelines"]["measured"]["makespan_ns"] == last["step_ns"]
    assert data["timelines"]["measured"]["bubble"] == last["bubble"]
    assert data["timelines"]["predicted"]["makespan_ns"] == last["predicted_step_ns"]
    assert [row["peak_bytes"] for row in data["timelines"]["measured"]["rows"]] == last["peak_activation_bytes"]
    assert data["curve"]["loss"] == [line["loss"] for line in lines]
    assert data["curve"]["tokens_per_second"] == [line["tokens_per_second"] for line in lines]
    assert sum(bin["count"] for bin in data["lengths"]) == last["sequences"]
    assert data["tokens"] == last["tokens"]


def test_slices_name_the_documents_of_the_trace(trained):
    """The Chrome trace of the same step names them, too."""
    data = data_of(trained / "report.html")
    trace = json.loads((trained / "timeline.json").read_text())
    named = {tuple(event["args"]["slices"]) for event in trace["traceEvents"]
             if event["ph"] == "X" and event["cat"] == "forward"}
    def text(sequence, begin, end):
        document, before = data["documents"][sequence]
        return f"document {document} [{before + begin}, {before + end})"
    assert {tuple(text(*s) for s in pack) for pack in data["packs"]["plan"][0]["forward"]} == named


def test_the_plan_of_a_run_is_a_plan_file(trained):
    done = run("simulate", trained / "plan.json")
    assert done.returncode == 0, done.stderr
    assert json.loads((trained / "plan.json").read_text())["limits"]["context"] == 1024


def test_a_plan_has_a_page_beside_it(plan):
    done = run("report", plan)
    assert done.returncode == 0, done.stderr
    data = data_of(plan.with_suffix(".html"))
    assert list(data["timelines"]) == ["packed", "predicted"]
    assert data["curve"] is None


def test_rivals_are_those_of_compare(workspace, plan, tmp_path):
    done = run("compare", workspace.config("compared"), "--set", "parallel.pp=2", "--json", tmp_path / "compared.json")
    assert done.returncode == 0, done.stderr
    cases = {case["planner"]: case for case in json.loads((tmp_path / "compared.json").read_text())["cases"]}
    run("report", plan)
    ours, *rivals = data_of(plan.with_suffix(".html"))["rivals"]
    assert ours["makespan_ns"] == cases.pop("slimpack")["makespan_ns"]
    assert len(rivals) == len(cases) > 5
    for rival in rivals:
        case = cases[rival["planner"]]
        for figure in ("makespan_ns", "bubble", "peak_bytes", "published_makespan_ns", "fits"):
            assert rival[figure] == case[figure], (rival["planner"], figure)


def test_the_page_has_the_bill_of_a_run(plan, tmp_path):
    assert_refused(run("report", plan, "--price-per-gpu-hour", "2"), "--run-tokens")
    page = tmp_path / "page.html"
    done = run("report", plan, "--out", page, "--run-tokens", "7.2M", "--price-per-gpu-hour", "2")
    assert done.returncode == 0, done.stderr
    data = data_of(page)
    bill, speeds = data["run"], {row["planner"]: row["tokens_per_second"] for row in data["rivals"]}
    ranks = data["timelines"]["predicted"]["ranks"]
    assert bill["ranks"] == ranks and bill["runs"][0]["name"] == data["rivals"][0]["planner"]
    for row in bill["runs"]:
        if row["name"] in speeds:
            assert row["cost"] == pytest.approx(7.2e6 / speeds[row["name"]] / 3600 * ranks * 2)


@pytest.mark.parametrize("of", ["run", "plan"])
def test_a_picture_has_packed_above_and_the_plan_below(of, trained, plan, tmp_path):
    before = sorted(plan.parent.iterdir())
    done = run("report", trained if of == "run" else plan, "--svg", tmp_path / "out.svg")
    assert done.returncode == 0, done.stderr
    assert sorted(plan.parent.iterdir()) == before  # no page without --out
    svg = ElementTree.parse(tmp_path / "out.svg").getroot()
    text = "".join(svg.itertext())
    assert text.index("packed as usual") < text.index("as planned")
    assert {"stage 0", "stage 1"} <= set(svg.itertext())


@pytest.mark.parametrize("option", ["--out", "--json", "--svg"])
def test_what_cannot_be_written_is_found_before_any_work(plan, tmp_path, option):
    (tmp_path / "folder").mkdir()
    others = [word for other in ("--out", "--json", "--svg") if other != option
              for word in (other, tmp_path / f"out{other}")]
    done = run("report", plan, *others, option, tmp_path / "folder")
    assert_refused(done, "cannot write", "folder")
    assert "comparing planners" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_page_beside_the_plan_that_cannot_be_written_is_found_before_any_work(plan, tmp_path):
    shutil.copy(plan, tmp_path / "plan.json")
    (tmp_path / "plan.html").mkdir()
    done = run("report", tmp_path / "plan.json")
    assert_refused(done, "cannot write", "plan.html")
    assert "comparing planners" not in done.stderr


def test_what_is_no_run_is_refused(workspace, tmp_path):
    assert_refused(run("report", tmp_path / "nothing"), tmp_path / "nothing", "output.dir")
    assert_refused(run("report", tmp_path), tmp_path, "plan.json", "train")
    config = workspace.config("refused")
    assert_refused(run("report", config), config)
    assert not config.with_suffix(".html").exists()


@pytest.mark.parametrize("name", ["plan.json", "measured.json", "metrics.jsonl"])
@pytest.mark.parametrize("damage", ["missing", "cut", "nonsense"])
def test_a_damaged_run_is_refused(copied, name, damage):
    (copied / "report.html").unlink()
    file = copied / name
    text = file.read_text()
    if damage == "missing":
        file.unlink()
    else:
        file.write_text("{\n" if damage == "nonsense" else text[:len(text) // 2] + "\n")
    assert_refused(run("report", copied), copied, name)
    assert not (copied / "report.html").exists()


@pytest.mark.parametrize("name", ["plan.json", "measured.json"])
def test_another_version_is_refused(copied, name):
    changed = json.loads((copied / name).read_text())
    changed["version"] = 99
    (copied / name).write_text(json.dumps(changed))
    assert_refused(run("report", copied), copied / name, "99")


def test_files_of_two_steps_are_refused(copied, plan):
    changed = json.loads((copied / "measured.json").read_text())
    changed["sequences"][0][2] += 1
    (copied / "measured.json").write_text(json.dumps(changed))
    assert_refused(run("report", copied), copied / "measured.json", "same step")


def test_output_that_cannot_be_written_is_refused(copied, tmp_path):
    page = (copied / "report.html").read_bytes()
    assert_refused(run("report", copied, "--out", "/proc/page.html"), "/proc/page.html")
    assert_refused(run("report", copied, "--svg", copied), copied)
    done = with_full_disk(4096, "report", copied)
    assert done.returncode == 1
    assert "report.html" in done.stderr
    assert (copied / "report.html").read_bytes() == page
    assert sorted(file.name for file in copied.iterdir()) == [
        "measured.json", "metrics.jsonl", "plan.json", "report.html", "timeline.json"]
