"""fit, and what plan does about memory, solvers and time budgets."""

import json

import pytest
from program import assert_refused, run, settings

# Weights, gradients and moments of the model in fp32: 16 bytes for each of 43,680 parameters, 0.7 MB.
# A layer has 3·32·48 + 2·32·32 + 2·16·32 + 2·32 parameters, embedding and head 257·32 each, the last
# norm 32.
STATES = 16 * (4 * (3 * 32 * 48 + 2 * 32 * 32 + 2 * 16 * 32 + 2 * 32) + 2 * 257 * 32 + 32)


def fit(workspace, tmp_path, *overrides, code):
    file = tmp_path / "fit.json"
    done = run("fit", workspace.config("fit"), "--json", file, *settings(overrides))
    assert done.returncode == code, done.stdout + done.stderr
    figures = json.loads(file.read_text())
    assert (figures["format"], figures["version"]) == ("slimpack-fit", 2)
    assert figures["fits"] == (code == 0)
    return figures, done.stdout


def test_a_job_that_fits_ends_with_0_and_a_row_for_each_stage(workspace, tmp_path):
    figures, text = fit(workspace, tmp_path, "parallel.pp=2", code=0)
    assert figures["memory_bytes"] == 80_000_000_000
    assert figures["reserve_bytes"] == 4_000_000_000
    assert figures["options"] == []
    assert "fits: the fullest rank" in text
    parts = ["weight_bytes", "gradient_bytes", "optimizer_bytes", "activation_bytes"]
    for stage in figures["stages"]:
        assert stage["total_bytes"] == sum(stage[part] for part in parts)
        assert stage["capacity_bytes"] == 76_000_000_000
        assert stage["headroom_bytes"] == stage["capacity_bytes"] - stage["total_bytes"]
    states = sum(stage[part] for stage in figures["stages"] for part in parts[:3])
    assert states == STATES


def test_rows_in_host_memory_are_told(workspace, tmp_path):
    device = ["parallel.pp=2", "train.device=cuda"]
    kept, text = fit(workspace, tmp_path, *device, code=0)
    assert kept["host_bytes"] == 0 and "host memory" not in text
    offloaded, text = fit(workspace, tmp_path, *device, "plan.recompute=offload", code=0)
    assert "computed again: offload, host memory of a rank: " in text
    # They are the plan's own figure, and off the device.
    done = run("plan", workspace.config("fit"), "--out", tmp_path / "plan.json",
               "--json", tmp_path / "planned.json",
               *settings([*device, "plan.recompute=offload"]))
    assert done.returncode == 0, done.stderr
    planned = json.loads((tmp_path / "planned.json").read_text())
    assert offloaded["host_bytes"] == planned["host_bytes"] > 0
    activations = lambda figures: max(s["activation_bytes"] for s in figures["stages"])
    assert activations(offloaded) < activations(kept)


def test_what_a_gpu_holds_besides_tensors_is_told(workspace, tmp_path):
    device = ["parallel.pp=2", "parallel.dp=2", "train.device=cuda", "train.dtype=bf16"]
    figures, text = fit(workspace, tmp_path, *device, code=0)
    assert "11% of it" in text and "known error 11%" in text and "attention kernel" in text and "sums of gradients" in text
    assert figures["reserve_bytes"] == 8_800_000_000
    parts = ["kernel_bytes", "message_bytes", "reduction_bytes"]
    for stage in figures["stages"]:
        assert 0 < sum(stage[part] for part in parts) < stage["activation_bytes"]
        assert stage["message_bytes"] > 0
    figures, text = fit(workspace, tmp_path, "parallel.pp=2", code=0)
    assert "attention kernel" not in text
    assert all(stage[part] == 0 for stage in figures["stages"] for part in parts)


def test_a_job_that_does_not_fit_ends_with_3_and_settings_that_do(workspace, tmp_path):
    # Too little for the states and the activations on one rank, enough on several.
    figures, text = fit(workspace, tmp_path, "hardware.memory_bytes=1500000", code=3)
    assert "does not fit: the fullest rank, of stage 0" in text
    assert figures["stages"][0]["headroom_bytes"] < 0
    assert figures["options"]
    ranks = [option["ranks"] for option in figures["options"]]
    assert ranks == sorted(ranks)
    for option in figures["options"]:
        assert " ".join(f"--set {setting}" for setting in option["settings"]) in text
        assert min(stage["headroom_bytes"] for stage in option["stages"]) >= 0
        again, _ = fit(workspace, tmp_path, "hardware.memory_bytes=1500000", *option["settings"],
                       code=0)
        assert again["makespan_ns"] == option["makespan_ns"]


def test_a_job_that_nothing_helps_names_the_longest_sequence(workspace, tmp_path):
    figures, text = fit(workspace, tmp_path, "hardware.memory_bytes=20000", code=3)
    assert figures["options"] == []
    assert figures["longest_that_fits"] == 0
    assert "none of the changes tried fits" in text


def test_fit_refuses_what_it_cannot_judge(workspace, tmp_path):
    file = workspace.config("fit-costs")
    file.write_text(file.read_text().replace("[hardware]", ""))
    assert_refused(run("fit", file), "cost.file", "[hardware]")
    file = workspace.config("fit-both")
    assert_refused(run("fit", file, "--lengths", "a.txt", "--data", "corpus"),
                   "--lengths", "--data", "give one")
    assert_refused(run("fit", file, *settings(["parallel.pp=5"])), "5", "4")
    help_text = run("fit", "--help").stdout
    assert "3 when it does not" in help_text


def test_plan_keeps_to_the_memory_that_is_left(workspace, tmp_path):
    def plan(*overrides):
        return run("plan", workspace.config("fit-plan"), "--out", tmp_path / "plan.json",
                   *settings(overrides))
    done = plan("hardware.memory_bytes=1500000")
    assert_refused(done, "activations need", "'slimpack fit'")
    assert "raise plan.memory_cap" not in done.stderr
    assert_refused(plan("hardware.memory_bytes=600000"), "weights, gradients and optimizer",
                   "'slimpack fit'")
    # A cap of one's own is taken at its word.
    done = plan("hardware.memory_bytes=600000", "plan.memory_cap=100MB")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", [["--solver", "milp"], ["--solver", "fluid"],
                                       ["--time-budget", "0.2"],
                                       ["--solver", "milp", "--time-budget", "0.2"]])
def test_no_solver_and_no_budget_is_worse_than_fluid(workspace, tmp_path, arguments):
    def makespan(*more):
        file = tmp_path / "plan-figures.json"
        done = run("plan", workspace.config("solvers"), "--out", tmp_path / "plan.json",
                   "--json", file, *settings(["parallel.pp=2", "plan.solver=fluid"]), *more)
        assert done.returncode == 0, done.stderr
        assert run("simulate", tmp_path / "plan.json").returncode == 0
        return json.loads(file.read_text())["makespan_ns"]
    assert makespan(*arguments) <= makespan()


@pytest.mark.parametrize("arguments, parts", [
    (["--solver", "cplex"], ["plan.solver", "cplex", "milp"]),
    (["--time-budget", "-1"], ["plan.time_budget", "-1"]),
    (["--time-budget", "soon"], ["plan.time_budget", "soon"]),
])
def test_bad_solvers_and_budgets_are_named(workspace, tmp_path, arguments, parts):
    assert_refused(run("plan", workspace.config("bad-solvers"),
                       "--out", tmp_path / "plan.json", *arguments), *parts)
    assert not (tmp_path / "plan.json").exists()


def test_the_memory_of_a_prompt(tmp_path):
    file = tmp_path / "prompt.json"
    done = run("fit", "models/llama-3.1-8b.json", "--prompt", "131000", "--max-new-tokens", "72",
               "--dtype", "bf16", "--json", file)
    assert done.returncode == 0, done.stderr
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    figures = json.loads(file.read_text())
    assert (figures["format"], figures["version"]) == ("slimpack-fit-prompt", 1)
    # 32 layers, 8 key heads of 128 numbers, keys and values of two bytes each.
    assert figures["cache_bytes"] == 32 * 131_072 * 2 * 8 * 128 * 2
    parts = ["weight_bytes", "cache_bytes", "angle_bytes", "slice_bytes"]
    assert figures["total_bytes"] == sum(figures[part] for part in parts)


@pytest.mark.parametrize("arguments, texts", [
    (["models/llama-3.1-8b.json", "--prompt", "0"], ["0 tokens", "1 or more"]),
    (["models/llama-3.1-8b.json", "--prompt", "200000"], ["200,000", "131,072"]),
    (["models/nothing.json", "--prompt", "10"], ["models/nothing.json"]),
])
def test_prompts_that_no_model_answers_are_refused(arguments, texts):
    assert_refused(run("fit", *arguments), *texts)
