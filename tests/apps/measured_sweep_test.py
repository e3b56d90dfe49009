"""sweep --measured: points that are trained."""

import json
import signal
import subprocess

import pytest
from program import SLIMPACK, assert_refused, run, settings, wait_for_line

PREDICTED = ["makespan_ns", "bubble", "peak_bytes"]


def over(*axes):
    return [word for axis in axes for word in ("--over", axis)]


def test_points_are_trained_and_predicted(workspace, tmp_path):
    file = workspace.config("trained")
    done = run("sweep", file, *over("packs=2,8", "pp=1,2"), "--measured", "--steps", 3, "--json",
               tmp_path / "out.json", "--csv", tmp_path / "out.csv", "--svg", tmp_path / "out.svg")
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "out.json").read_text())
    assert len(figures["points"]) == 4
    for point in figures["points"]:
        assert max(point["forward_packs"], point["backward_packs"]) <= int(point["values"]["packs"])
        for name in PREDICTED:
            assert point[name] >= 0 and point[f"measured_{name}"] >= 0
        # The memory model counts what the runtime allocates byte by byte.
        assert point["measured_peak_bytes"] == pytest.approx(point["peak_bytes"], rel=0.02)
    times = [point["ranks"] * point["measured_makespan_ns"] / point["tokens"] for point in figures["points"]]
    assert figures["best"] == times.index(min(times))
    titles = (tmp_path / "out.csv").read_text().splitlines()[0].split(",")
    assert [f"measured_{name}" for name in PREDICTED] == titles[7:10]
    assert "dashed: predicted" in (tmp_path / "out.svg").read_text()
    assert done.stdout.startswith("cost: hardware")
    assert not (workspace.folder / "trained").exists()


@pytest.mark.whole
def test_ranks_that_are_alike_are_measured_once(workspace):
    done = run("sweep", workspace.measured_config("profiled"), *over("pp=1,2", "packs=2,4"),
               "--measured", "--steps", 2)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("measuring one layer")]
    assert ["on 1 thread," in lines[0], "on 2 threads," in lines[1], len(lines)] == [True, True, 2]


def test_a_point_that_does_not_fit_is_a_result(workspace, tmp_path):
    done = run("sweep", workspace.config("trained-misfit"), *over("memory_cap=1kB,none"),
               "--measured", "--steps", 2, "--json", tmp_path / "out.json")
    assert done.returncode == 0, done.stderr
    tight, free = json.loads((tmp_path / "out.json").read_text())["points"]
    assert not tight["fits"] and "plan.memory_cap" in tight["why"]
    assert free["fits"] and free["measured_makespan_ns"] > 0


def test_a_stop_ends_the_sweep_and_leaves_no_file(workspace, tmp_path):
    command = [SLIMPACK, "sweep", workspace.config("stopped"), *over("packs=2,4"), "--measured",
               "--steps", "1000", "--json", tmp_path / "out.json", "--svg", tmp_path / "out.svg"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        wait_for_line(process, "training steps")
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.splitlines()[-1] == ("slimpack: stopped on request after 0 of 2 points; nothing is "
                                       "written")
    assert out == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments, parts", [
    (["--steps", "1"], ["--steps is 1, must be 2 to 1000", "the first step does not count"]),
    (["--steps", "5000"], ["--steps is 5000"]),
    (["--lengths", "list.txt"], ["--measured trains on the dataset", "leave out --lengths"]),
    (settings(["data.prefix="]), ["data.prefix is not set"]),
    (settings(["data.prefix=nowhere"]), ["nowhere"]),
    (over("pakcs=1"), ["axis 'pakcs' is unknown"]),
    (over("pp=1,9"), ["9 pipeline stages", "4 layers"]),
    (["--json", "/"], ["cannot write", "/"]),
])
def test_a_mistake_is_one_line(workspace, arguments, parts):
    done = run("sweep", workspace.config("trained-mistakes"), *over("packs=2"), "--measured",
               *arguments)
    assert_refused(done, *parts)
    assert len(done.stderr.splitlines()) == 1
