"""Lines that say what is wrong with an option, a size, a name or a file, and what to do."""

import json
from pathlib import Path

import pytest
from program import assert_refused, run, settings

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("command, given, meant", [
    ("plan", "--length", "--lengths"), ("compare", "--step", "--steps"), ("fit", "--dat", "--data"),
    ("layout", "--rank", "--ranks"), ("sweep", "--ovr=packs=1", "--over"),
    ("plan", "--time_budget", "--time-budget"), ("simulate", "--timelin", "--timeline"),
])
def test_a_misspelled_option_is_named_with_the_nearest_one(workspace, command, given, meant):
    needed = ["--over", "packs=4"] if command == "sweep" else []
    done = run(command, workspace.config("misspelled"), *needed, given, "1")
    assert_refused(done, f"unknown option '{given.split('=')[0]}'; did you mean \"{meant}\"?",
                   f"try 'slimpack {command} --help'")


@pytest.mark.parametrize("number", [2, 80, 999])
@pytest.mark.parametrize("command", ["plan", "compare", "fit", "layout"])
def test_a_cap_of_so_few_bytes_lacks_its_unit(workspace, command, number):
    done = run(command, workspace.config("unit"), *settings([f"plan.memory_cap={number}"]))
    assert_refused(done, f"plan.memory_cap is {number} bytes", f'give the unit, as in "{number}GB"')
    assert "planning" not in done.stderr.lower()  # it did not search first


@pytest.mark.parametrize("size, first, second", [("1M", "MB", "MiB"), ("80G", "GB", "GiB"),
                                                 ("64k", "kB", "KiB"), ("2T", "TB", "TiB")])
def test_a_unit_that_means_two_things_is_asked_back(workspace, size, first, second):
    done = run("plan", workspace.config("units"), *settings([f"plan.memory_cap={size}"]))
    assert_refused(done, f'"{size}"', f"may mean {first} or {second}", "say which")


@pytest.mark.parametrize("arguments", [
    ["--set", "data.step_tokens=1M"], ["--set", "data.context=128K"], ["--context", "128K"],
    ["--step-tokens", "1M"], ["--ranks", "1k"],
])
def test_numbers_are_to_be_written_out(workspace, arguments):
    done = run("layout", workspace.config("written-out"), *arguments)
    assert_refused(done, arguments[1].split("=")[-1], "written out" if arguments[0] == "--set" else
                   "write the number out", "as 1")


@pytest.mark.parametrize("command", ["simulate", "report"])
def test_a_run_file_is_no_plan(workspace, command):
    config = workspace.config("no-plan")
    done = run(command, config)
    assert_refused(done, f"{config} is a run configuration and no plan",
                   f"'slimpack plan {config} --out plan.json'")


def test_a_plan_without_a_file_is_printed(workspace, tmp_path):
    config = workspace.config("printed")
    printed = run("plan", config, cwd=tmp_path)
    assert printed.returncode == 0, printed.stderr
    assert "makespan" in printed.stdout and "--out FILE" in printed.stdout
    assert not list(tmp_path.iterdir())
    many = run("plan", config, "--steps", 3, cwd=tmp_path)
    assert many.returncode == 0 and "tokens/s" in many.stdout
    assert not list(tmp_path.iterdir())


COMMANDS = {
    "plan": [], "compare": ["--only", "slimpack"], "fit": [], "layout": ["--ranks", "1"],
    "sweep": ["--over", "packs=4"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_figures_on_the_standard_output_are_nothing_but_json(workspace, tmp_path, command):
    config = workspace.config("dash")
    done = run(command, config, *COMMANDS[command], "--json", "-", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["format"].startswith("slimpack-")
    report = run(command, config, *COMMANDS[command]).stdout
    assert report.splitlines()[-1] in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_plan_on_the_standard_output_can_be_simulated(workspace, tmp_path):
    config = workspace.config("dash-plan")
    done = run("plan", config, "--out", "-", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "plan.json").write_text(done.stdout)
    figures = run("simulate", tmp_path / "plan.json", "--json", "-")
    assert json.loads(figures.stdout)["format"] == "slimpack-prediction"


def test_shipped_names_stand_wherever_a_path_does(workspace, tmp_path):
    (tmp_path / "lengths.txt").write_text("3000\n500\n")
    (tmp_path / "run.toml").write_text(
        '[model]\nconfig = "llama-3.1-8b"\n[data]\ncontext = 4096\n[train]\ndevice = "cuda"\n'
        'dtype = "bf16"\n[parallel]\npp = 4\n[hardware]\nfile = "h100"\n')
    named = run("plan", "run.toml", "--lengths", "lengths.txt", "--json", "-", cwd=tmp_path)
    assert named.returncode == 0, named.stderr
    by_path = run("plan", "run.toml", "--lengths", "lengths.txt", "--json", "-", "--set",
                  f"model.config={ROOT / 'models' / 'llama-3.1-8b.json'}", "--set",
                  f"hardware.file={ROOT / 'hardware' / 'h100.toml'}", cwd=tmp_path)
    same = lambda done: {name: value for name, value in json.loads(done.stdout).items()
                         if name != "planning_ns"}
    assert same(named) == same(by_path)
    done = run("layout", "--model", "llama-3.1-8b", "--hardware", "h100", "--ranks", 8, "--lengths",
               "lengths.txt", "--context", 4096, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert run("fit", "llama-3.1-8b", "--prompt", 1000, cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("key, given, meant", [
    ("model.config", "llama-3.1-8c", "llama-3.1-8b"), ("hardware.file", "h1000", "h100"),
])
def test_a_misspelled_name_is_told_the_nearest(workspace, key, given, meant):
    done = run("plan", workspace.config("names"), *settings([f"{key}={given}"]))
    assert_refused(done, f'"{given}" is no file and no name', f'did you mean "{meant}"?')


def test_models_that_can_be_planned_are_listed_for_one_that_cannot(workspace, tmp_path):
    model = tmp_path / "config.json"
    model.write_text(json.dumps({"model_type": "rwkv", "hidden_size": 64}))
    for command in ("plan", "fit", "compare", "layout"):
        done = run(command, workspace.config("families"), *settings([f"model.config={model}"]))
        assert_refused(done, 'model_type "rwkv" is not supported', "llama, qwen2, qwen3, mistral, mixtral, qwen3_moe, olmoe",
                       "to plan", "deepseek_v3", "qwen3_moe", "gpt_oss")


def test_a_plan_and_a_comparison_say_the_same_peak(workspace, lengths, tmp_path):
    for grid in (["parallel.pp=4"], ["parallel.pp=2", "parallel.dp=2"], ["parallel.pp=1"]):
        wanted = ["--lengths", lengths, *settings(grid)]
        plan = run("plan", workspace.config("peaks"), *wanted, "--out", tmp_path / "plan.json",
                   "--json", tmp_path / "planned.json")
        assert plan.returncode == 0, plan.stderr
        compare = run("compare", workspace.config("peaks"), *wanted, "--only", "slimpack", "--json", "-")
        planned = json.loads((tmp_path / "planned.json").read_text())
        (row,) = json.loads(compare.stdout)["cases"]
        peak = max(stage["peak_activation_bytes"] for stage in planned["stages"])
        assert peak == row["peak_bytes"]
        simulated = json.loads(run("simulate", tmp_path / "plan.json", "--json", "-").stdout)
        assert simulated["stages"] == planned["stages"]
        sweep = run("sweep", workspace.config("peaks"), *wanted, "--over", "granularity=64", "--json", "-")
        assert json.loads(sweep.stdout)["points"][0]["peak_bytes"] == peak


def test_known_errors_stand_beside_predicted_times(workspace, lengths, tmp_path):
    wanted = [workspace.config("errors"), "--lengths", lengths, *settings(["train.device=cuda"])]
    known = {"time": 0.18, "worst_time": 0.44, "memory": 0.11}
    for command, more in COMMANDS.items():
        if command == "sweep":
            continue
        done = run(command, *wanted, *more, "--json", tmp_path / "out.json")
        assert done.returncode == 0, done.stderr
        assert "± 18%" in done.stdout, command
        figures = json.loads((tmp_path / "out.json").read_text())
        if command == "layout":
            figures = figures["searches"][0]
        said = figures["known_error"]
        assert {name: round(said[name], 9) for name in known} == known
