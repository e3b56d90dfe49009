"""`slimpack train` and what it cannot use: one line naming value and remedy, exit code 2, and every
file of an earlier run as it was."""

import json
import os
import shutil
import subprocess

import pytest
from program import (LENGTHS, SLIMPACK, assert_failed, assert_refused, metrics, run, settings,
                     weights, with_full_disk)

EARLIER = {"metrics.jsonl": "earlier\n", "timeline.json": "{}", "checkpoints/notes.txt": "{}"}


def contents(folder):
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}


def train_over_earlier_run(workspace, output, *overrides, change=None, **model):
    """A run into a folder that holds files of an earlier one, which have to stay."""
    file = workspace.config(output, **model)
    if change:
        file.write_text(change(file.read_text()))
    folder = workspace.folder / output
    (folder / "checkpoints").mkdir(parents=True)
    for name, text in EARLIER.items():
        (folder / name).write_text(text)
    done = run("train", file, *settings(overrides))
    assert contents(folder) == EARLIER
    return done


def test_a_missing_configuration_is_named(workspace):
    assert_refused(run("train", workspace.folder / "nope.toml"), "nope.toml", "check the path")


@pytest.mark.parametrize("command, parts", [
    ([], ["subcommand", "slimpack --help"]),
    (["trian"], ["'trian'", 'did you mean "train"?']),
    (["data", "biuld"], ["'biuld'", 'did you mean "build"?', "slimpack data --help"]),
    (["train"], ["--print-config"]),
    (["train", "run.toml", "--stepz", "3"], ["--stepz", "slimpack train --help"]),
    (["train", "run.toml", "--against", "nothing"], ["nothing", "packed"]),
    (["plan"], ["RUN.toml", "slimpack plan --help"]),
])
def test_a_mistake_on_the_command_line_is_one_line(command, parts):
    assert_refused(run(*command), *parts)


@pytest.mark.parametrize("name, line, parts", [
    ("key", "[train]\nlearning_rat = 1", ["learning_rat", 'did you mean "learning_rate"?', ":9"]),
    ("section", "[trian]", ["trian", 'did you mean "train"?', ":8"]),
    ("type", '[train]\ndtype = "fp31"', ["fp31", "fp32", ":9"]),
    ("syntax", "[train", [":8", "TOML"]),
])
def test_a_mistake_in_the_configuration_is_placed(workspace, name, line, parts):
    done = train_over_earlier_run(workspace, f"toml-{name}",
                                  change=lambda text: text.replace("[train]", line))
    assert_refused(done, f"toml-{name}.toml", *parts)


@pytest.mark.parametrize("override, parts", [
    ("train.steps", ["train.steps", "section.key=value"]),
    ("train.steps=many", ["many", "integer"]),
    ("train.steps=0", ["train.steps is 0", "from 1"]),
    ("train.stepz=3", ["stepz", 'did you mean "steps"?']),
    ("trian.steps=3", ["trian", 'did you mean "train"?']),
    ("data.prefix=nowhere/corpus", ["nowhere/corpus", "slimpack data build"]),
    ("parallel.pp=5", ["parallel.pp is 5", "4 layers", "lower"]),
    ("parallel.stages_per_rank=2", ["parallel.stages_per_rank is 2", "pp is 1", "raise pp"]),
    ("parallel.stages_per_rank=some", ['"some"', "an integer from 1", '"auto"']),
    ("parallel.stages_per_rank=0", ["parallel.stages_per_rank is 0", "from 1"]),
    ("parallel.spread_vocabulary=true", ["parallel.spread_vocabulary is true", "pp is 1", "raise pp"]),
    ("parallel.exchange_context=true", ["parallel.exchange_context is true", "pp is 1", "raise pp"]),
    ("parallel.exchange_context=auto", ["exchange_context", '"auto"', "true or false"]),
    ("parallel.spread_vocabulary=some", ['"some"', 'true, false or "auto"']),
    ("data.context=1025", ["1025", "max_position_embeddings = 1024", "lower data.context"]),
    ("model.config=nowhere.json", ["nowhere.json", "check the path"]),
    ("cost.file=nowhere.json", ["nowhere.json", "check the path"]),
    ("model.adapter_rank=16", ["model.adapter_rank is 16", "PackFlow trains all weights", "set 0"]),
    ("model.adapter_rank=-1", ["model.adapter_rank is -1", "from 0"]),
    ("plan.memory_cap=64KiB", ["65,536", "would fit", "raise plan.memory_cap"]),
    ("plan.memory_cap=64 bananas", ["bananas", "memory_cap"]),
    ("plan.recompute=offload", ['plan.recompute is "offload"', 'train.device is "cpu"']),
])
def test_a_setting_that_cannot_be_used_is_named(workspace, override, parts):
    output = "set-" + "".join(c if c.isalnum() else "-" for c in override)
    assert_refused(train_over_earlier_run(workspace, output, override), *parts)


@pytest.mark.parametrize("name, model, parts", [
    ("moe", dict(family="gpt_oss", num_local_experts=8), ["gpt_oss"]),
    ("experts", dict(num_local_experts=8), ["num_local_experts", "8"]),
    ("window", dict(family="mistral", sliding_window=0), ["sliding_window", "allowed are 1"]),
    ("vocabulary", dict(vocab_size=128), ["model-vocabulary", "vocab_size is 128", "corpus"]),
])
def test_a_model_that_does_not_suit_is_refused(workspace, name, model, parts):
    assert_refused(train_over_earlier_run(workspace, f"model-{name}", **model), *parts)


@pytest.mark.parametrize("ending, keep", [(".bin", -1), (".bin", 0), (".idx", -1), (".idx", 40),
                                          (".idx", 10), (".idx", 0)])
def test_a_truncated_dataset_is_refused(workspace, ending, keep):
    name = f"truncated{ending[1:]}{keep}"
    prefix = workspace.copy_corpus(name)
    file = prefix.with_name(name + ending)
    file.write_bytes(file.read_bytes()[:keep])
    done = train_over_earlier_run(workspace, f"run-{name}", f"data.prefix={prefix}")
    assert_refused(done, prefix)


def test_a_file_where_the_output_folder_should_be_is_named(workspace):
    file = workspace.config("in-the-way")
    (workspace.folder / "in-the-way").write_text("mine")
    assert_refused(run("train", file), "in-the-way", "is not a folder", "output.dir")
    assert (workspace.folder / "in-the-way").read_text() == "mine"


def test_a_file_where_the_checkpoints_should_be_is_found_before_training(workspace):
    file = workspace.config("no-room")
    (workspace.folder / "no-room").mkdir()
    (workspace.folder / "no-room" / "checkpoints").write_text("mine")
    done = run("train", file)
    assert_refused(done, "checkpoints", "is not a folder", "output.dir")
    assert contents(workspace.folder / "no-room") == {"checkpoints": "mine"}


def test_a_folder_where_the_metrics_should_be_is_named(workspace):
    file = workspace.config("metrics-folder")
    (workspace.folder / "metrics-folder" / "metrics.jsonl").mkdir(parents=True)
    assert_refused(run("train", file), "metrics.jsonl", "output.dir")


def test_a_disk_that_is_full_at_the_first_metrics_leaves_no_half_line(workspace):
    done = with_full_disk(100, "train", workspace.config("full-at-once"))
    assert_failed(done, "full-at-once", "File too large")
    assert contents(workspace.folder / "full-at-once") in ({}, {"metrics.jsonl": ""})


def test_a_disk_that_fills_up_leaves_whole_lines_and_no_half_checkpoint(workspace):
    line = len((workspace.train("lines", "train.steps=1") / "metrics.jsonl").read_text())
    done = with_full_disk(line * 3 // 2, "train", workspace.config("filling-up"))
    assert_failed(done, "filling-up", "File too large")
    folder = workspace.folder / "filling-up"
    assert [m["step"] for m in metrics(folder)] == [1]
    assert list(contents(folder)) == ["metrics.jsonl"]


def test_a_disk_without_room_for_the_checkpoint_leaves_the_metrics(workspace):
    done = with_full_disk(20_000, "train", workspace.config("no-checkpoint"))
    assert_failed(done, "model.safetensors", "File too large")
    folder = workspace.folder / "no-checkpoint"
    assert len(metrics(folder)) == 3
    assert list(contents(folder)) == ["metrics.jsonl"]


@pytest.mark.parametrize("option", ["--out", "--json"])
def test_a_plan_is_not_written_by_halves(workspace, tmp_path, option):
    outputs = {"--out": tmp_path / "plan.json", "--json": tmp_path / "figures.json"}
    (tmp_path / "file").write_text("")
    outputs[option] = tmp_path / "file" / "nothing.json"
    done = run("plan", workspace.config(f"plan{option}"),
               *(word for pair in outputs.items() for word in pair))
    assert_refused(done, "file/nothing.json", "Not a directory")
    assert not [p for p in tmp_path.iterdir() if ".tmp" in p.name]

    done = with_full_disk(100, "plan", workspace.config(f"plan{option}"),
                          "--out", tmp_path / "full" / "plan.json")
    assert_failed(done, "plan.json", "File too large")
    assert not list((tmp_path / "full").iterdir())


def test_a_later_step_that_does_not_fit_keeps_the_steps_before(workspace):
    """A document a step, and memory for all but the longest: found while the step before trains."""
    short = ["data.step_tokens=1", "parallel.pp=2"]
    lines = metrics(workspace.train("roomy", *short, f"train.steps={len(LENGTHS)}"))
    longest = [line["tokens"] for line in lines].index(max(LENGTHS) + 1)
    assert longest >= 2
    cap = max(max(line["predicted_peak_activation_bytes"]) for line in lines[:longest])
    capped = [*short, f"plan.memory_cap={cap}", f"train.steps={len(LENGTHS)}"]

    done = run("train", workspace.config("tight"), *settings(capped))
    assert_refused(done, f"{cap:,}", "raise plan.memory_cap",
                   f"after {longest} of {len(LENGTHS)} steps", "tight/checkpoints")
    # The learning rate is the same at every step, so a run of just these ends with the same bits.
    tight = workspace.folder / "tight"
    expected = workspace.train("all-that-fit", *short, f"train.steps={longest}")
    assert weights(tight) == weights(expected)
    assert [line["step"] for line in metrics(tight)] == list(range(1, longest + 1))


def test_a_diverging_run_ends_with_finite_weights(workspace):
    file = workspace.config("diverging")
    done = run("train", file, *settings(["train.learning_rate=1e30", "train.min_learning_rate=0"]))
    assert_failed(done, "gradient norm", "train.learning_rate", "after ")
    for line in metrics(workspace.folder / "diverging"):
        assert None not in line.values()  # JSON has no NaN; null would stand for it


def test_a_cost_file_of_another_model_is_refused(workspace):
    cost = workspace.folder / "cost.json"
    done = run("plan", workspace.config("other-model", hidden_size=64),
               "--out", workspace.folder / "other-plan.json")
    assert done.returncode == 0, done.stderr
    plan = json.loads((workspace.folder / "other-plan.json").read_text())
    cost.write_text(json.dumps(plan["cost"]))
    assert_refused(train_over_earlier_run(workspace, "wrong-cost", f"cost.file={cost}"),
                   "cost.json", "another model", "profile")


def test_a_cost_file_that_does_not_know_weight_gradients_cannot_split(workspace):
    done = run("plan", workspace.config("whole"), "--out", workspace.folder / "whole.json")
    assert done.returncode == 0, done.stderr
    cost = json.loads((workspace.folder / "whole.json").read_text())["cost"]
    del cost["weight_gradient"]
    (workspace.folder / "whole-cost.json").write_text(json.dumps(cost))
    done = train_over_earlier_run(workspace, "cannot-split", "plan.backward=split",
                                  f"cost.file={workspace.folder / 'whole-cost.json'}")
    assert_refused(done, "weight gradients", 'plan.backward to "whole"', "slimpack profile")


def test_without_the_training_program_the_others_still_work(workspace, tmp_path):
    alone = shutil.copy(SLIMPACK, tmp_path / "slimpack")
    file = workspace.config("alone")
    done = subprocess.run([alone, "train", file], capture_output=True, text=True, check=False,
                          timeout=60)
    assert_refused(done, tmp_path / "slimpack-train", os.strerror(2), "make build")
    done = subprocess.run([alone, "data", "inspect", workspace.folder / "corpus"], timeout=60,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
