"""Models that are planned but not trained: plan, fit and compare take them, train and profile do not."""

import json
from pathlib import Path

import pytest
from program import assert_refused, run, settings

ROOT = Path(__file__).resolve().parents[2]
LENGTHS = [4000, 250, 90, 1, 800, 1900, 3000, 77, 512, 513]
# Ranks of 80 GB that hold the model's states: pp, dp, tp.
GRIDS = {"llama-3.1-8b": (4, 1, 2), "llama-3.1-70b": (8, 1, 8), "qwen2.5-7b": (4, 1, 2),
         "mistral-7b-v0.3": (4, 1, 2), "gemma-2-9b": (4, 1, 2), "phi-3-mini-4k": (4, 2, 1),
         "mixtral-8x7b": (8, 2, 4), "qwen3-30b-a3b": (8, 2, 4), "olmoe-1b-7b-0924": (4, 2, 2),
         "gpt-oss-20b": (4, 2, 4), "deepseek-v3": (16, 2, 8), "qwen3.5-35b-a3b": (16, 1, 1),
         "qwen3-next-80b-a3b": (32, 1, 1), "nemotron-3-nano-30b-a3b": (16, 1, 1)}
STATES = ("qwen3.5-35b-a3b", "qwen3-next-80b-a3b", "nemotron-3-nano-30b-a3b")
CONFIG = """
[model]
config = "{model}"
[data]
prefix = "unused"
context = 4096
[train]
dtype = "bf16"
[parallel]
pp = {pp}
dp = {dp}
tp = {tp}
[hardware]
file = "{root}/hardware/h100.toml"
"""


def write(folder, name, model):
    pp, dp, tp = GRIDS[name]
    (folder / "run.toml").write_text(CONFIG.format(model=model, pp=pp, dp=dp, tp=tp, root=ROOT))
    (folder / "lengths.txt").write_text("".join(f"{n}\n" for n in LENGTHS))
    return folder / "run.toml"


def written(folder, name):
    return write(folder, name, ROOT / "models" / f"{name}.json")


@pytest.mark.parametrize("name", GRIDS)
def test_models_of_this_repository_are_planned(tmp_path, name):
    done = run("plan", written(tmp_path, name), "--lengths", tmp_path / "lengths.txt",
               "--out", tmp_path / "plan.json", "--json", tmp_path / "figures.json")
    assert done.returncode == 0, done.stderr
    # Three of them are trained where tp is 1.
    planned_alone = name.split("-")[0] in ("gemma", "phi", "mixtral", "olmoe", "gpt", "deepseek") or \
        name == "qwen3-30b-a3b" or name in STATES
    assert ("cannot train" in done.stderr) == planned_alone
    assert ("slimpack.torch.pipeline, which can" in done.stderr) == (name in STATES)
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["tokens"] == sum(LENGTHS)
    assert figures["makespan_ns"] >= figures["lower_bound_ns"] > 0
    simulated = run("simulate", tmp_path / "plan.json", "--json", tmp_path / "again.json")
    assert simulated.returncode == 0, simulated.stderr
    assert json.loads((tmp_path / "again.json").read_text())["makespan_ns"] == figures["makespan_ns"]


@pytest.mark.parametrize("command", ["fit", "compare"])
@pytest.mark.parametrize("name", ["gemma-2-9b", "deepseek-v3", "nemotron-3-nano-30b-a3b"])
def test_fit_and_compare_take_them(tmp_path, name, command):
    done = run(command, written(tmp_path, name), "--lengths", tmp_path / "lengths.txt")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", STATES)
def test_layouts_and_sweeps_take_models_with_states(tmp_path, name):
    file, lengths = written(tmp_path, name), tmp_path / "lengths.txt"
    done = run("layout", file, "--lengths", lengths, "--json", tmp_path / "layouts.json")
    assert done.returncode == 0, done.stderr
    (search,) = json.loads((tmp_path / "layouts.json").read_text())["searches"]
    best = search["layouts"][0]
    assert (best["tp"], best["outcome"]) == (1, "rated")
    planned = run("plan", file, "--lengths", lengths, *settings(best["settings"]),
                  "--out", tmp_path / "plan.json", "--json", tmp_path / "figures.json")
    assert planned.returncode == 0, planned.stderr
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["makespan_ns"] == best["makespan_ns"]["mean"]
    swept = run("sweep", file, "--lengths", lengths, "--over", "packs=8,16",
                "--json", tmp_path / "sweep.json")
    assert swept.returncode == 0, swept.stderr


def test_a_window_makes_long_documents_cheaper(tmp_path):
    def makespan(**changes):
        config = json.loads((ROOT / "models" / "gemma-2-9b.json").read_text())
        (tmp_path / "model.json").write_text(json.dumps({**config, **changes}))
        file = write(tmp_path, "gemma-2-9b", "model.json")
        done = run("plan", file, "--lengths", tmp_path / "lengths.txt",
                   "--out", tmp_path / "plan.json", "--json", tmp_path / "figures.json")
        assert done.returncode == 0, done.stderr
        return json.loads((tmp_path / "figures.json").read_text())["makespan_ns"]

    assert makespan(sliding_window=128) < makespan(sliding_window=4096)


@pytest.mark.parametrize("command", ["profile", "train"])
def test_what_runs_layers_refuses_them_in_one_line(tmp_path, command):
    done = run(command, written(tmp_path, "gemma-2-9b"),
               *(["--out", tmp_path / "cost.json"] if command == "profile" else []))
    assert done.returncode == 2
    assert "fit, plan and compare" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("name", STATES)
def test_training_says_what_trains_models_with_states(tmp_path, name):
    done = run("train", written(tmp_path, name))
    assert_refused(done, "model_type", "fit, plan and compare take it, slimpack.torch.pipeline trains")


def test_layers_with_states_are_not_divided(tmp_path):
    done = run("plan", written(tmp_path, "qwen3-next-80b-a3b"), *settings(["parallel.tp=2"]),
               "--lengths", tmp_path / "lengths.txt", "--out", tmp_path / "plan.json")
    assert_refused(done, "tp is 2", "layers with states")


def test_experts_are_spread_over_ranks_that_divide_them(tmp_path):
    done = run("plan", written(tmp_path, "gpt-oss-20b"), *settings(["parallel.tp=64"]),
               "--lengths", tmp_path / "lengths.txt", "--out", tmp_path / "plan.json")
    assert_refused(done, "tp is 64", "32 experts")
