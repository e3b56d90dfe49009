"""Each command takes the models that it can, and says what it lacks for others."""

import json

import pytest
from program import LENGTHS, MODEL, assert_refused, run, settings

SCALED = {"rope_type": "dynamic", "factor": 8.0}
MEASURED = ["train.steps=1", "data.context=64"]  # a short document is measured quickly


@pytest.fixture(scope="module")
def lengths(workspace):
    file = workspace.folder / "model-lengths.txt"
    file.write_text("".join(f"{n + 1}\n" for n in LENGTHS))
    return file


def commands(workspace, lengths):
    """Every command that reads a model, with what it writes."""
    out = workspace.folder
    return {"plan": ["--lengths", lengths, "--out", out / "plan.json"],
            "fit": ["--lengths", lengths, "--json", out / "fit.json"],
            "compare": ["--lengths", lengths, "--json", out / "compare.json"],
            "profile": ["--out", out / "cost.json"],
            "train": []}


@pytest.mark.parametrize("command", ["plan", "fit", "compare", "profile", "train"])
def test_a_context_beyond_the_models_positions_is_refused(workspace, lengths, command):
    file = workspace.config(f"beyond-{command}")
    done = run(command, file, *commands(workspace, lengths)[command],
               *settings(["data.context=1025"]))
    assert_refused(done, "data.context is 1025", "max_position_embeddings = 1024")


@pytest.mark.parametrize("command", ["plan", "fit", "compare", "profile"])
def test_rope_scaling_is_told_and_costs_nothing(workspace, lengths, command):
    output = f"scaled-{command}"
    arguments = commands(workspace, lengths)[command]
    plain = run(command, workspace.config(output), *arguments, *settings(MEASURED))
    done = run(command, workspace.config(output, rope_scaling=SCALED), *arguments,
               *settings(MEASURED))
    assert (plain.returncode, done.returncode) == (0, 0), done.stderr
    line = done.stderr.splitlines()[0]
    for part in [f"{output}-model.json", 'rope_type "dynamic"', "costs the same", "cannot train"]:
        assert part in line
    if command == "fit":  # the others say how long they took
        assert done.stdout == plain.stdout


def test_training_and_starting_weights_name_rope_scaling_at_once(workspace):
    """Removing one key after the other would end in another model: no message says to."""
    scaled = workspace.config("scaled", rope_scaling=SCALED)
    folder = workspace.folder / "scaled-hf"
    folder.mkdir()
    (folder / "config.json").write_text(
        json.dumps({"model_type": "llama", **MODEL, "rope_scaling": SCALED}))
    for done in (run("train", scaled), run("train", workspace.config("plain"), "--init", folder)):
        assert_refused(done, 'rope_scaling has rope_type "dynamic"', "this version cannot train",
                       "plan and compare take it")
        assert "factor" not in done.stderr and "remove" not in done.stderr


@pytest.mark.parametrize("command", ["plan", "train"])
def test_what_changes_costs_is_refused_with_all_else_that_is_not_supported(workspace, lengths,
                                                                           command):
    file = workspace.config(f"mixed-{command}", rope_scaling=SCALED, num_local_experts=8,
                            hidden_act="gelu")
    done = run(command, file, *commands(workspace, lengths)[command])
    assert_refused(done, "num_local_experts is 8 (mixture of experts)", 'hidden_act is "gelu"',
                   'rope_scaling has rope_type "dynamic"')


@pytest.mark.parametrize("family", ["gpt_oss", "qwen2_moe", "gemma2", "gpt2"])
def test_another_architecture_is_no_misspelling(workspace, family):
    done = run("train", workspace.config(f"family-{family}", family))
    assert_refused(done, f'model_type "{family}" is not supported',
                   "llama, qwen2, qwen3, mistral, mixtral, qwen3_moe, olmoe")
    assert "did you mean" not in done.stderr


EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24)


def test_experts_are_profiled_planned_and_trained_but_not_shared_out(workspace, lengths):
    output = "experts"
    file = workspace.config(output, "qwen3_moe", **EXPERTS)
    cost = workspace.folder / "experts-cost.json"
    for command, arguments in [("profile", ["--out", cost, *settings(MEASURED)]),
                               ("plan", ["--lengths", lengths, "--out", workspace.folder / "e.json",
                                         *settings([f"cost.file={cost}"])]),
                               ("train", settings(["train.steps=1"]))]:
        done = run(command, file, *arguments)
        assert done.returncode == 0, done.stderr
        assert "cannot train" not in done.stderr
    shared = settings(["parallel.tp=2"])
    file = workspace.config("experts-shared", "qwen3_moe", **EXPERTS)
    assert_refused(run("train", file, *shared), "parallel.tp is 2", "does not share out experts",
                   "set parallel.tp to 1")
    told = run("plan", file, "--lengths", lengths, "--out", workspace.folder / "e.json", *shared)
    assert told.returncode == 0, told.stderr
    assert "trains with parallel.tp = 1" in told.stderr.splitlines()[0]


def test_what_is_not_exact_of_experts_is_planned_but_not_trained(workspace, lengths):
    file = workspace.config("balanced", "qwen3_moe", **EXPERTS, output_router_logits=True)
    done = run("plan", file, "--lengths", lengths, "--out", workspace.folder / "e.json")
    assert done.returncode == 0, done.stderr
    assert "load-balancing loss" in done.stderr.splitlines()[0]
    assert_refused(run("train", file), "output_router_logits is true (load-balancing loss",
                   "false trains without it")
