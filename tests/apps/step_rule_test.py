"""One rule says what a step is, for all commands that plan: plan, compare, fit, sweep and layout."""

import json
import random

import pytest
from program import TOKENS, run, settings

STEP = 3000  # tokens; the run file of these tests has TOKENS


@pytest.fixture
def documents(tmp_path):
    rng = random.Random(52)
    file = tmp_path / "documents.txt"
    lengths = [rng.randint(1, 900) for _ in range(60)]
    file.write_text("".join(f"{n}\n" for n in lengths))
    return file, sum(lengths)


def planned(figures):
    """Tokens of each step; of one step, or of several."""
    if "tokens" in figures:
        return [figures["tokens"]]
    return [round(step["tokens_per_second"] * step["makespan_ns"] / 1e9)
            for step in figures["planners"][0]["steps"]]


def compared(figures):
    rows = figures["cases"] if "cases" in figures else figures["planners"][0]["steps"]
    return [round(row["tokens_per_second"] * row["makespan_ns"] / 1e9) for row in rows]


COMMANDS = {
    "plan": ([], planned),
    "compare": (["--only", "slimpack"], compared),
    "fit": ([], lambda figures: [figures["tokens"]]),
    "sweep": (["--over", "granularity=64"], lambda figures: [figures["points"][0]["tokens"]]),
    "layout": (["--ranks", "1"], lambda figures: [figures["searches"][0]["tokens"]]),
}


def tokens_of(command, config, tmp_path, *arguments):
    more, read = COMMANDS[command]
    file = tmp_path / f"{command}.json"
    done = run(command, config, *more, *arguments, "--json", file)
    assert done.returncode == 0, done.stderr
    return read(json.loads(file.read_text()))


def held_by_step(config, file, tmp_path):
    """Bytes on the only rank in each of the five steps, found by planning them one by one."""
    states = json.loads((tmp_path / "fit.json").read_text())["stages"][0]
    fixed = states["total_bytes"] - states["activation_bytes"]
    done = run("plan", config, "--lengths", file, "--steps", 5,
               *settings([f"data.step_tokens={STEP}"]), "--json", tmp_path / "steps.json")
    assert done.returncode == 0, done.stderr
    steps = json.loads((tmp_path / "steps.json").read_text())["planners"][0]["steps"]
    return [fixed + step["peak_bytes"] for step in steps]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_list_is_one_step_whatever_the_run_file_says(workspace, documents, tmp_path, command):
    file, total = documents
    config = workspace.config("rule-whole")
    assert total > 2 * TOKENS
    assert tokens_of(command, config, tmp_path, "--lengths", file) == [total]


@pytest.mark.parametrize("command", COMMANDS)
def test_it_says_that_the_whole_list_is_a_step(workspace, documents, command):
    file, total = documents
    more, _ = COMMANDS[command]
    done = run(command, workspace.config("rule-said"), *more, "--lengths", file,
               *settings(["plan.memory_cap=none"]))
    text = " ".join(done.stdout.split())
    assert f"all of it ({total:,} tokens)" in text and "--steps 1 draws a step of" in text


@pytest.mark.parametrize("asked", [
    ["--steps", "1"], ["--steps", "1", "--set", f"data.step_tokens={STEP}"],
    ["--set", f"data.step_tokens={STEP}"], ["--set", f"data.step_tokens={STEP}", "--set", "data.seed=7"],
], ids=["steps", "both", "tokens", "seed"])
def test_every_command_draws_the_same_step(workspace, documents, tmp_path, asked):
    file, _ = documents
    config = workspace.config("rule-drawn")
    size = STEP if f"data.step_tokens={STEP}" in asked else TOKENS
    one = [*asked, *([] if "--steps" in asked else ["--steps", "1"])]  # layout usually draws four
    (first,) = tokens_of("plan", config, tmp_path, "--lengths", file, *asked)
    assert size <= first < size + 900
    for command in COMMANDS:
        arguments = one if command == "layout" else asked
        assert tokens_of(command, config, tmp_path, "--lengths", file, *arguments) == [first], command


def test_of_several_steps_all_commands_see_the_same(workspace, documents, tmp_path):
    file, _ = documents
    config = workspace.config("rule-several")
    wanted = ["--lengths", file, "--steps", 5, *settings([f"data.step_tokens={STEP}"])]
    steps = tokens_of("plan", config, tmp_path, *wanted)
    assert len(steps) == 5 and len(set(steps)) > 1
    assert tokens_of("compare", config, tmp_path, *wanted) == steps
    mean = sum(steps) // 5
    assert tokens_of("sweep", config, tmp_path, *wanted) == [mean]
    assert tokens_of("layout", config, tmp_path, *wanted) == [mean]
    (fullest,) = tokens_of("fit", config, tmp_path, *wanted)
    assert fullest in steps
    roomy = json.loads((tmp_path / "fit.json").read_text())
    assert roomy["fits"]
    held = roomy["stages"][0]["total_bytes"]
    assert all(held >= total for total in held_by_step(config, file, tmp_path))


@pytest.mark.parametrize("source", ["--data", "--distribution", None])
def test_the_first_step_is_the_same_for_any_number_of_steps(workspace, tmp_path, source):
    config = workspace.config("rule-first")
    arguments = {"--data": ["--data", workspace.folder / "corpus"],
                 "--distribution": ["--distribution", "log-normal:5,1"]}.get(source, [])
    one = tokens_of("plan", config, tmp_path, *arguments)
    four = tokens_of("plan", config, tmp_path, *arguments, "--steps", 4)
    assert four[0] == one[0] and len(four) == 4
    for command in ("compare", "fit", "sweep"):
        assert tokens_of(command, config, tmp_path, *arguments) == one
    assert tokens_of("layout", config, tmp_path, *arguments) == [sum(four) // 4]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_says_the_rule(command):
    text = " ".join(run(command, "--help").stdout.split())
    assert "a list of --lengths is one step as a whole" in text
    assert "--steps" in text and "data.step_tokens" in text


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("steps", ["0", "-3", "1000000"])
def test_a_number_of_steps_out_of_range_is_refused(workspace, documents, command, steps):
    more, _ = COMMANDS[command]
    done = run(command, workspace.config("rule-range"), *more, "--lengths", documents[0], "--steps",
               steps)
    assert done.returncode == 2
    assert f"--steps is {steps}, must be 1 to 10000" in done.stderr
