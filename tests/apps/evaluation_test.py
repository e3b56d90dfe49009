"""The loss on held-out documents: that of transformers, at the steps asked for, and without a trace in
what is trained."""

import random
import shutil
import signal
import subprocess

import pytest
from hugging_face_loss import hugging_face_loss
from program import (SLIMPACK, all_metrics, assert_refused, evaluations, learned,
                     newest_checkpoint, read_documents, run, settings, tensors)
from transformers import AutoModelForCausalLM

LENGTHS = [60, 250, 3, 120, 33, 90, 400]  # bytes; `data build` adds a token to each
CONTEXT = 100
TRAIN = [f"data.context={CONTEXT}", "data.step_tokens=300"]


def build(workspace, name, texts):
    """A dataset of these documents: its prefix."""
    folder = workspace.folder / f"{name}-text"
    folder.mkdir()
    for i, text in enumerate(texts):
        (folder / f"{i:04}.txt").write_text(text)
    prefix = workspace.folder / name
    done = run("data", "build", "--from", folder, "--out", prefix)
    assert done.returncode == 0, done.stderr
    return prefix


@pytest.fixture(scope="module")
def held_out(workspace):
    r = random.Random(2)
    return build(workspace, "held-out", ["".join(r.choice("abcd ") for _ in range(n)) for n in LENGTHS])


def evaluate(prefix, every, tokens=450):
    return [f"evaluation.prefix={prefix}", f"evaluation.every={every}", f"evaluation.tokens={tokens}"]


@pytest.mark.parametrize("family, model, grid", [
    ("llama", dict(attention_bias=True), ["parallel.pp=2"]),
    ("qwen2", dict(tie_word_embeddings=True), ["parallel.pp=2", "parallel.dp=2"]),
    ("qwen3", dict(head_dim=16), ["parallel.pp=2", "parallel.tp=2"]),
    ("mistral", {}, ["parallel.dp=4", "plan.planner=packed"]),
])
def test_transformers_finds_the_same_loss(workspace, held_out, family, model, grid):
    folder = workspace.train(family, *TRAIN, *grid, *evaluate(held_out, every=2), "checkpoint.every=2",
                             family=family, model=model)
    # Split at 100 tokens, the documents have 61, 100 + 100 + 51, 4, 100 + 21, 34, … tokens; the 34
    # would pass 450.
    documents = read_documents(held_out)
    sequences = [d[i:i + CONTEXT] for d in documents for i in range(0, len(d), CONTEXT)][:7]
    assert list(map(len, sequences)) == [61, 100, 100, 51, 4, 100, 21]
    lines = evaluations(folder)
    assert [line["step"] for line in lines] == [0, 2, 3]
    for line in lines:
        assert line["evaluation_documents"] == 4
        assert line["evaluation_tokens"] == sum(map(len, sequences))
    for line in lines[1:]:
        saved = AutoModelForCausalLM.from_pretrained(
            folder / "checkpoints" / f"step-{line['step']:08}")
        assert line["evaluation_loss"] == pytest.approx(hugging_face_loss(saved, sequences), rel=1e-5)


def test_the_model_is_evaluated_before_its_first_step(workspace, held_out):
    """The model that a run begins with is found from its own first checkpoint: --init starts there."""
    first = workspace.train("first", *TRAIN, "train.steps=1")
    initial = newest_checkpoint(first)
    done = run("train", workspace.config("begun"), "--init", initial,
               *settings([*TRAIN, "train.steps=1", *evaluate(held_out, every=5)]))
    assert done.returncode == 0, done.stderr
    before = evaluations(workspace.folder / "begun")[0]
    assert before["step"] == 0
    assert "\nevaluation after step 0: " in done.stderr
    model = AutoModelForCausalLM.from_pretrained(initial)
    documents = read_documents(held_out)
    sequences = [d[i:i + CONTEXT] for d in documents for i in range(0, len(d), CONTEXT)][:7]
    assert before["evaluation_loss"] == pytest.approx(hugging_face_loss(model, sequences), rel=1e-5)


def test_training_does_not_notice_it(workspace, held_out):
    usual = [*TRAIN, "train.steps=5", "parallel.pp=2", "parallel.dp=2", "train.dtype=bf16"]
    without = workspace.train("without", *usual)
    with_it = workspace.train("with", *usual, *evaluate(held_out, every=2))
    assert learned(with_it) == learned(without)
    assert tensors(with_it) == tensors(without)
    # Before the first step, after every second and after the last, each on a line after its step's.
    places = [(line["step"], "evaluation_loss" in line) for line in all_metrics(with_it)]
    assert places == [(0, True), (1, False), (2, False), (2, True), (3, False), (4, False), (4, True),
                      (5, False), (5, True)]
    assert not evaluations(without)


def test_a_run_that_goes_on_evaluates_at_the_same_steps(workspace, held_out):
    usual = [*TRAIN, "train.steps=7", "parallel.pp=2", *evaluate(held_out, every=2)]
    whole = workspace.train("whole", *usual, "checkpoint.every=1", "checkpoint.keep_last=7")
    assert [line["step"] for line in evaluations(whole)] == [0, 2, 4, 6, 7]
    for step in (3, 4):  # evaluated after the fourth, not after the third
        part = workspace.folder / f"part-{step}"
        name = f"step-{step:08}"
        shutil.copytree(whole / "checkpoints" / name, part / "checkpoints" / name)
        shutil.copy(whole / "metrics.jsonl", part)
        done = run("train", workspace.config(part.name), *settings(usual), "--resume", "auto")
        assert done.returncode == 0, done.stderr
        assert evaluations(part) == evaluations(whole)
        assert learned(part) == learned(whole)
        assert tensors(part) == tensors(whole)


def test_a_run_that_is_stopped_in_an_evaluation_makes_up_for_it(workspace, held_out):
    """The first step is trained and saved; its evaluation comes when the run goes on."""
    many = build(workspace, "many", ["abcd " * 190] * 200)  # 190,000 tokens: seconds
    usual = ["train.steps=2", "data.step_tokens=20000", "plan.planner=packed"]
    file = workspace.config("stopped")
    command = [SLIMPACK, "train", file, *settings([*usual, *evaluate(many, 1, 10_000_000)])]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                          text=True) as process:
        for line in process.stderr:
            if line.startswith("step 1/2"):
                break
        process.send_signal(signal.SIGTERM)
        *_, last = process.stderr.read().splitlines()
        assert process.wait(20) == 0
    assert last.startswith("slimpack: stopped on request after 1 of 2 steps; ")
    folder = workspace.folder / "stopped"
    assert [line["step"] for line in evaluations(folder)] == [0]
    assert newest_checkpoint(folder).name == "step-00000001"

    fewer = [*usual, *evaluate(held_out, every=1)]
    done = run("train", file, *settings(fewer), "--resume", "auto")
    assert done.returncode == 0, done.stderr
    assert evaluations(folder)[1:] == evaluations(workspace.train("not-stopped", *fewer))[1:]
    assert [line["step"] for line in evaluations(folder)] == [0, 1, 2]


def test_the_log_and_the_summary_tell_it(workspace, held_out):
    done = run("train", workspace.config("told"), *settings([*TRAIN, *evaluate(held_out, every=2)]))
    assert done.returncode == 0, done.stderr
    first, _, last = evaluations(workspace.folder / "told")
    told = [line for line in done.stderr.splitlines() if line.startswith("evaluation ")]
    assert len(told) == 3
    assert told[0].startswith(f"evaluation after step 0: loss {first['evaluation_loss']:.4f} on ")
    assert told[1].startswith("evaluation after step 2: ")
    assert " tok in 4 docs, took " in told[0]
    assert (f"\nevaluation loss {first['evaluation_loss']:.4f} → {last['evaluation_loss']:.4f}\n"
            in done.stdout)


@pytest.fixture(scope="module")
def unknown_token(workspace, held_out):
    """The held-out documents; the second begins with a token that the model does not know."""
    prefix = workspace.folder / "unknown-token"
    for ending in (".bin", ".idx"):
        shutil.copy(f"{held_out}{ending}", f"{prefix}{ending}")
    with open(f"{prefix}.bin", "r+b") as file:
        file.seek(2 * (LENGTHS[0] + 1))  # stored as uint16
        file.write((257).to_bytes(2, "little"))
    return prefix


@pytest.mark.parametrize("overrides, parts", [
    (["evaluation.every=1"], ["evaluation.every is 1", "evaluation.prefix is not set"]),
    (evaluate("nowhere/held-out", 1), ["nowhere/held-out", "slimpack data build"]),
    (evaluate("{held_out}", 1, tokens=60), ["evaluation.tokens is 60", "held-out", "raise it"]),
    (evaluate("{unknown_token}", 1), ["unknown-token", "document 1 holds token 257"]),
])
def test_what_cannot_be_evaluated_is_refused_before_training(workspace, held_out, unknown_token,
                                                             overrides, parts):
    filled = [o.format(held_out=held_out, unknown_token=unknown_token) for o in overrides]
    done = run("train", workspace.config("refused"), *settings([*TRAIN, *filled]))
    assert_refused(done, *parts)
    assert not (workspace.folder / "refused").exists()
