"""Masks beside a dataset: the loss counts the targets that they say, and nothing else changes."""

import json
import random
import shutil

import pytest
from forking import forked_job
from masks import masked_loss, write_mask
from program import (LENGTHS, TIMEOUT, TOKENS, assert_refused, complaint, evaluations, learned, losses,
                     metrics, read_documents, run, settings, tensors, worker)
from transformers import AutoModelForCausalLM

CONTEXT = 100
SPLIT = f"data.context={CONTEXT}"  # long documents become several sequences


def random_masks(documents, seed):
    """Half of the tokens. The second document has no target, the third one all."""
    r = random.Random(seed)
    shares = {1: 0, 2: 1}
    return [[int(r.random() < shares.get(d, 0.5)) for _ in tokens] for d, tokens in enumerate(documents)]


@pytest.fixture(name="masked", scope="module")
def fixture_masked(workspace):
    """(prefix, documents, masks)."""
    prefix = workspace.copy_corpus("masked")
    documents = read_documents(prefix)
    masks = random_masks(documents, 1)
    write_mask(prefix, masks)
    return prefix, documents, masks


def of_prefix(prefix):
    return f"data.prefix={prefix}"


def sequences(documents):
    """Documents, or their masks, cut at the context."""
    return [d[i:i + CONTEXT] for d in documents for i in range(0, len(d), CONTEXT)]


@pytest.mark.parametrize("grid", [
    [], ["parallel.pp=2", "parallel.dp=2"], ["parallel.pp=2", "parallel.spread_vocabulary=true"],
    ["parallel.dp=2", "parallel.tp=2"]])
def test_transformers_finds_the_same_losses(workspace, masked, grid):
    prefix, documents, masks = masked
    output = f"losses-{len(grid)}-{grid[-1:]}".translate(str.maketrans("[]'.=", "-----"))
    folder = workspace.train(output, SPLIT, of_prefix(prefix), *grid, "checkpoint.every=1",
                             "checkpoint.keep_last=9", f"evaluation.prefix={prefix}", "evaluation.every=1")
    assert [line["tokens"] for line in metrics(folder)] == [TOKENS] * 3  # an epoch each
    for line, evaluation in zip(metrics(folder), evaluations(folder), strict=False):
        assert line["loss"] == pytest.approx(evaluation["evaluation_loss"], rel=1e-5)  # before the step
    for evaluation in evaluations(folder)[1:]:
        saved = AutoModelForCausalLM.from_pretrained(
            folder / "checkpoints" / f"step-{evaluation['step']:08}")
        expected = masked_loss(saved, sequences(documents), sequences(masks))
        assert evaluation["evaluation_loss"] == pytest.approx(expected, rel=1e-5)


def test_a_mask_that_counts_all_gives_the_bits_of_none(workspace):
    prefix = workspace.copy_corpus("all-count")
    write_mask(prefix, [[1] * len(tokens) for tokens in read_documents(prefix)])
    without, with_it = workspace.train("no-mask"), workspace.train("all-counts", of_prefix(prefix))
    assert learned(with_it) == learned(without)
    assert tensors(with_it) == tensors(without)


def test_a_run_that_goes_on_has_the_same_bits(workspace, masked):
    usual = [SPLIT, of_prefix(masked[0]), "train.steps=5", "parallel.pp=2", "data.step_tokens=300"]
    whole = workspace.train("whole", *usual, "checkpoint.every=2", "checkpoint.keep_last=9")
    part = workspace.folder / "part"
    shutil.copytree(whole / "checkpoints" / "step-00000002", part / "checkpoints" / "step-00000002")
    shutil.copy(whole / "metrics.jsonl", part)
    done = run("train", workspace.config("part"), *settings(usual), "--resume", "auto")
    assert done.returncode == 0, done.stderr
    assert learned(part) == learned(whole)
    assert tensors(part) == tensors(whole)


def test_a_run_does_not_go_on_where_the_mask_has_come_or_gone(workspace):
    prefix = workspace.copy_corpus("coming")
    workspace.train("comes", of_prefix(prefix), "train.steps=1")
    write_mask(prefix, [[1] * len(tokens) for tokens in read_documents(prefix)])
    workspace.train("goes", of_prefix(prefix), "train.steps=1")
    resumed = {}
    for output in ("comes", "goes"):
        resumed[output] = run("train", workspace.config(output), *settings([of_prefix(prefix)]),
                              "--resume", "auto")
        if output == "comes":
            for ending in ("bin", "idx"):
                prefix.with_name(f"coming.mask.{ending}").unlink()
    assert_refused(resumed["comes"], "data.prefix was", "with a mask now")
    assert_refused(resumed["goes"], "data.prefix was", "with a mask and is")


def test_processes_have_the_losses_of_threads(workspace, masked):
    usual = [SPLIT, of_prefix(masked[0]), "data.step_tokens=400", "parallel.pp=2"]
    threads = workspace.train("threads", *usual)
    file = workspace.config("processes")
    with forked_job(workspace.folder, *[worker(file, *usual, TIMEOUT)] * 2) as processes:
        assert processes.codes() == [0, 0], processes.text()
    assert losses(workspace.folder / "processes") == losses(threads)


def test_processes_of_which_one_lacks_the_mask_do_not_train(workspace, masked):
    file = workspace.config("unlike")
    commands = [worker(file, "parallel.dp=2", TIMEOUT, of_prefix(prefix))
                for prefix in (masked[0], workspace.folder / "corpus")]
    with forked_job(workspace.folder, *commands) as processes:
        assert processes.codes() == [2, 2], processes.text()
        line = complaint(processes)
    assert "step 1: ranks 0 and 1 have drawn different documents" in line and "the same" in line


def test_steps_without_a_target_are_left_out_with_a_warning(workspace):
    prefix = workspace.copy_corpus("few-targets")
    masks = [[0] * (length + 1) for length in LENGTHS]
    masks[6][-1] = 1
    write_mask(prefix, masks)
    done = run("train", workspace.config("few"),
               *settings([of_prefix(prefix), "data.step_tokens=1", "train.steps=2"]))
    assert done.returncode == 0, done.stderr
    lines = metrics(workspace.folder / "few")
    assert [line["tokens"] for line in lines] == [LENGTHS[6] + 1] * 2
    assert all(0 < loss < 100 for loss in losses(workspace.folder / "few"))
    warned = [line for line in done.stderr.splitlines()
              if "are left out: no token of their steps is a target" in line]
    assert 1 <= len(warned) <= 2  # before each of the two steps at most
    left_out = {line["step"]: line["left_out"] for line in lines}
    assert warned == [f"warning: {count} sequences before step {step} are left out: no token of their steps is "
                      "a target" for step, count in left_out.items() if count]
    # In each epoch of 12 the one with a target has some place: p before it in the first, 11 - p behind it.
    assert 11 <= sum(left_out.values()) <= 22 and left_out[1] <= 11
    assert [line["targets"] for line in lines] == [1, 1]
    assert "nan" not in (workspace.folder / "few" / "metrics.jsonl").read_text().lower()


@pytest.mark.parametrize("change, parts", [
    (lambda masks: [[0] * len(mask) for mask in masks], ["no target", "write a mask that counts some"]),
    (lambda masks: masks[:-1], ["mask.idx", f"{len(LENGTHS) - 1} documents", f"which are {len(LENGTHS)}"]),
    (lambda masks: [*masks[:-1], masks[-1][1:]], [f"document {len(LENGTHS) - 1} has {LENGTHS[-1]} bytes"]),
    (lambda masks: [*masks[:-1], [7] * len(masks[-1])],
     [f"document {len(LENGTHS) - 1} holds 7 at position 0", "write the mask again"]),
])
def test_a_mask_that_cannot_be_used_is_refused_before_the_first_step(workspace, change, parts):
    prefix = workspace.copy_corpus("bad-mask")
    write_mask(prefix, change([[1] * (length + 1) for length in LENGTHS]))
    done = run("train", workspace.config("bad-mask-run"), *settings([of_prefix(prefix), "data.step_tokens=1"]))
    assert_refused(done, *parts)
    assert not (workspace.folder / "bad-mask-run").exists()


def test_held_out_documents_without_a_target_are_refused(workspace):
    prefix = workspace.copy_corpus("nothing-held-out")
    write_mask(prefix, [[1] + [0] * length for length in LENGTHS])
    done = run("train", workspace.config("evaluates-nothing"),
               *settings([f"evaluation.prefix={prefix}", "evaluation.every=1"]))
    assert_refused(done, "evaluation.tokens is", "nothing-held-out", "no target")


def test_inspect_tells_the_share_of_targets(masked, tmp_path):
    prefix, documents, masks = masked
    targets = [sum(mask[1:]) for mask in masks]
    without = [d for d, count in enumerate(targets) if count == 0]
    assert len(without) > 1 or without == [1]
    done = run("data", "inspect", prefix, "--json", tmp_path / "figures.json")
    assert done.returncode == 0, done.stderr
    share = f"{100 * sum(targets) / sum(map(len, documents)):.0f}"
    text = " ".join(done.stdout.split())
    assert f"of the tokens targets ({sum(targets)});" in text and f"makes {share}" in text
    which = (f"document {without[0]} has none" if len(without) == 1 else
             f"{len(without)} documents have none, the first is document {without[0]}")
    assert which in text
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["targets"] == sum(targets)
    assert figures["documents_without_targets"] == len(without)


def test_inspect_of_a_dataset_without_a_mask_says_nothing_of_targets(workspace, tmp_path):
    done = run("data", "inspect", workspace.folder / "corpus", "--json", tmp_path / "figures.json")
    assert "target" not in done.stdout
    assert "targets" not in json.loads((tmp_path / "figures.json").read_text())
