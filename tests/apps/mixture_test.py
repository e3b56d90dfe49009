"""Runs that train on several datasets, and documents that are left out."""

import json
import random
import shutil

import pytest
from forking import forked_job
from masks import write_mask
from program import (LENGTHS, TIMEOUT, TOKENS, VOCABULARY, all_metrics, assert_refused, learned, losses,
                     metrics, newest_checkpoint, read_checkpoint_state, read_documents, run, settings,
                     tensors, worker)
from slimpack.torch.pipeline import StepSampler

OTHER = [7, 210, 30, 95, 310, 18, 60, 150]  # bytes; `data build` adds a token to each
STEPS = ["data.step_tokens=400", "train.steps=6", "train.dtype=fp64", "checkpoint.every=1",
         "checkpoint.keep_last=9"]


@pytest.fixture(scope="module", autouse=True)
def other(workspace):
    """A second dataset, "other". Its mask counts two tokens of three."""
    folder, r = workspace.folder / "other-text", random.Random(5)
    folder.mkdir()
    for i, length in enumerate(OTHER):
        (folder / f"{i}.txt").write_text("".join(r.choice("efgh ") for _ in range(length)))
    prefix = workspace.folder / "other"
    assert run("data", "build", "--from", folder, "--out", prefix).returncode == 0
    write_mask(prefix, [[int(i % 3 > 0) for i in range(n + 1)] for n in OTHER])


def mixed(workspace, output, *sources):
    """The run file of a run on these sources, each the lines of a table."""
    file = workspace.config(output)
    tables = [f"\n[[data.sources]]\n{source}\n" for source in sources]
    file.write_text(file.read_text().replace('prefix = "corpus"\n', "") + "".join(tables))
    return file


def shared(weights, key="weight"):
    return [f'prefix = "{name}"\n{key} = {w}' for name, w in zip(["corpus", "other"], weights)]


def train(file, *overrides):
    done = run("train", file, *settings(overrides))
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(name="six", scope="module")
def fixture_six(workspace):
    """Six steps of two thirds and one third, and their log."""
    done = train(mixed(workspace, "six", *shared([2, 1])), *STEPS)
    return workspace.folder / "six", done.stderr


def go_on(workspace, whole, output, step, *overrides, sources=None):
    """The run goes on in another folder from a checkpoint."""
    part, name = workspace.folder / output, f"step-{step:08}"
    shutil.copytree(whole / "checkpoints" / name, part / "checkpoints" / name)
    file = mixed(workspace, output, *(sources or shared([2, 1])))
    return part, run("train", file, *settings([*STEPS, *overrides]), "--resume", "auto")


def test_the_log_says_what_each_dataset_gives(six):
    assert ("\ndata: a mixture: 66.7% of '" in six[1] and "corpus' (12 documents), 33.3% of '" in six[1]
            and "other' (8 documents)\n" in six[1])
    assert "\ndata: no document is longer than the context of 1,024\n" in six[1]


def test_documents_are_numbered_through_and_shares_hold(six):
    """The last step's documents, against the lengths of both datasets."""
    sequences = json.loads((six[0] / "measured.json").read_text())["sequences"]
    lengths = [n + 1 for n in [*LENGTHS, *OTHER]]
    for document, begin, length in sequences:
        assert (begin, length) == (0, lengths[document])
    assert max(document for document, *_ in sequences) >= len(LENGTHS)
    places = read_checkpoint_state(newest_checkpoint(six[0]))["run"]["cursor"]["sources"]
    drawn = [place["epoch"] * sum(n + 1 for n in source) for place, source in
             zip(places, [LENGTHS, OTHER], strict=True)]
    # These are whole epochs: what the sources gave lies between them and one epoch more. No source is
    # further from its share than the longest sequence takes one: 311 tokens of a third are 933 of all.
    trained = sum(line["tokens"] for line in metrics(six[0]))
    for epochs, epoch, share in zip(drawn, [TOKENS, sum(OTHER) + len(OTHER)], [2 / 3, 1 / 3], strict=True):
        assert epochs - 933 * share <= trained * share <= epochs + epoch + 933 * share


def test_python_draws_the_same_steps(six):
    sampler = StepSampler([[n + 1 for n in lengths] for lengths in (LENGTHS, OTHER)], weights=[2, 1],
                          context=1024, step_tokens=400)
    steps = [sampler.next_step() for _ in range(6)]
    assert [[len(step.documents), int(step.lengths.sum())] for step in steps] == [
        [line["sequences"], line["tokens"]] for line in metrics(six[0])]
    sequences = json.loads((six[0] / "measured.json").read_text())["sequences"]
    assert [list(map(int, columns)) for columns in zip(*steps[-1][:3], strict=True)] == sequences
    run_state = read_checkpoint_state(newest_checkpoint(six[0]))["run"]
    assert steps[-1].cursor == run_state["cursor"]


@pytest.mark.parametrize("step", [1, 2, 3, 5])
def test_a_run_goes_on_from_any_step_with_the_same_bits(workspace, six, step):
    part, done = go_on(workspace, six[0], f"from-{step}", step)
    assert done.returncode == 0, done.stderr
    assert learned(part) == learned(six[0])[step:]
    assert tensors(part) == tensors(six[0])


@pytest.mark.parametrize("grid", [["parallel.dp=2"], ["parallel.pp=2", "parallel.dp=3"]])
def test_a_run_goes_on_with_other_replicas_on_the_same_documents(workspace, six, grid):
    part, done = go_on(workspace, six[0], f"replicas-{len(grid)}", 2, *grid)
    assert done.returncode == 0, done.stderr
    assert losses(part) == pytest.approx(losses(six[0])[2:], rel=1e-9)
    drawn = [[line[key] for key in ("documents", "sequences", "tokens", "longest")]
             for folder in (part, six[0]) for line in metrics(folder)[-4:]]
    assert drawn[:4] == drawn[4:]


def test_processes_have_the_losses_of_threads(workspace):
    grid = ["data.step_tokens=400", "parallel.pp=2"]
    train(mixed(workspace, "mixed-threads", *shared([1, 3])), *grid)
    file = mixed(workspace, "mixed-processes", *shared([1, 3]))
    with forked_job(workspace.folder, *[worker(file, *grid, TIMEOUT)] * 2) as processes:
        assert processes.codes() == [0, 0], processes.text()
    assert losses(workspace.folder / "mixed-processes") == losses(workspace.folder / "mixed-threads")


def test_an_epoch_of_a_mixture_has_its_passes(workspace):
    """1 × 12 and 1.5 × 8 documents, one a step: 24 steps."""
    steps = ["data.step_tokens=1", "train.steps=24"]
    train(mixed(workspace, "passes", *shared([1, 1.5], "epochs")), *steps)
    folder = workspace.folder / "passes"
    drawn = sorted(line["tokens"] for line in metrics(folder))
    for length in LENGTHS:
        drawn.remove(length + 1)
    times = [drawn.count(length + 1) for length in OTHER]
    assert sum(times) == len(drawn) == 12 and set(times) == {1, 2}
    cursor = read_checkpoint_state(newest_checkpoint(folder))["run"]["cursor"]
    assert cursor["sources"] == [{"epoch": 0, "position": 12}, {"epoch": 1, "position": 4}]


@pytest.mark.parametrize("share", ["", "weight = 3", "epochs = 2"])
def test_a_single_source_trains_as_its_dataset(workspace, share):
    name = f"single-{share[:2]}"
    train(mixed(workspace, name, f'prefix = "corpus"\n{share}'), *STEPS)
    alone = workspace.folder / "alone"
    if not alone.exists():
        workspace.train("alone", *STEPS)
    folder = workspace.folder / name
    assert learned(folder) == learned(alone)
    assert tensors(folder) == tensors(alone)
    states = [read_checkpoint_state(newest_checkpoint(f))["run"] for f in (folder, alone)]
    assert states[0] == states[1]


@pytest.mark.parametrize("sources, parts", [
    (shared([2, 3]), ["data.sources[1] was weight 1 of 8 documents", "and is weight 3 of 8 documents"]),
    (shared([2, 1], "epochs"), ["data.sources[0] was weight 2", "and is epochs 2"]),
    (shared([2]), ["data.prefix was a mixture of 2 and is 12 documents"]),
    ([*shared([2, 1]), 'prefix = "third"\nweight = 1'], ["data.prefix was a mixture of 2 and is a mixture of 3"]),
    (shared([2, 1])[::-1], ["data.sources[0] was weight 2 of 12 documents", "and is weight 1 of 8"]),
])
def test_other_sources_cannot_go_on(workspace, six, sources, parts):
    workspace.copy_corpus("third")
    name = f"other-sources-{len(list(workspace.folder.glob('other-sources-*.toml')))}"
    part, done = go_on(workspace, six[0], name, 4, sources=sources)
    assert_refused(done, "step-00000004", "set it back", "--init", *parts)
    assert not (part / "metrics.jsonl").exists()


def test_a_prefix_on_the_command_line_replaces_the_sources(workspace):
    corpus = f"data.prefix={workspace.folder}/corpus"
    train(mixed(workspace, "replaced", 'prefix = "nowhere"', 'prefix = "other"'), corpus)
    assert learned(workspace.folder / "replaced") == learned(workspace.train("plain"))


def test_plans_are_of_the_mixtures_documents(workspace):
    file = mixed(workspace, "planned", *shared([2, 1]))
    train(file, "data.step_tokens=400", "train.steps=1")
    trained = json.loads((workspace.folder / "planned" / "plan.json").read_text())["plan"]["lengths"]
    out = workspace.folder / "first.json"
    done = run("plan", file, *settings(["data.step_tokens=400"]), "--out", out)
    assert done.returncode == 0, done.stderr
    assert json.loads(out.read_text())["plan"]["lengths"] == trained
    assert "a mixture of 2 datasets, first step of seed 0" in done.stdout
    assert "66.7% of" in done.stdout
    for command in ("compare", "fit", "layout"):
        done = run(command, file, *settings(["data.step_tokens=400"]), *["--ranks=2"] * (command == "layout"))
        assert done.returncode == 0, done.stderr
        assert "a mixture of 2 datasets" in done.stdout


def spoiled(workspace, name, at, value):
    """The second dataset with another token at a place."""
    for ending in (".bin", ".idx"):
        shutil.copy(workspace.folder / f"other{ending}", workspace.folder / f"{name}{ending}")
    with (workspace.folder / f"{name}.bin").open("r+b") as file:
        file.seek(2 * at)  # stored as uint16
        file.write(value.to_bytes(2, "little"))


def test_every_dataset_is_checked_before_training(workspace):
    spoiled(workspace, "spoiled", OTHER[0] + 1 + 3, VOCABULARY)
    corpus = 'prefix = "corpus"'
    done = run("train", mixed(workspace, "unknown", corpus, 'prefix = "spoiled"'))
    assert_refused(done, "spoiled': document 1 holds token 257 at position 3")
    done = run("train", mixed(workspace, "lost", corpus, 'prefix = "nowhere"'))
    assert_refused(done, "nowhere", "slimpack data build")
    masked = workspace.copy_corpus("masked")
    write_mask(masked, [[0] * len(tokens) for tokens in read_documents(masked)])
    done = run("train", mixed(workspace, "no-target", 'prefix = "other"', 'prefix = "masked"'))
    assert_refused(done, "data.sources has", "masked', whose 12 documents have no target", "write a mask")
    write_mask(masked, [[2] * len(tokens) for tokens in read_documents(masked)])
    done = run("train", mixed(workspace, "bad-mask", 'prefix = "other"', 'prefix = "masked"'))
    assert_refused(done, "masked.mask': document 0 holds 2 at position 0")
    done = run("train", mixed(workspace, "few", corpus, 'prefix = "other"\nepochs = 0.01'))
    assert_refused(done, "epochs of dataset '", "other' are 0.01", "8 sequences", "none")
    for output in ("unknown", "lost", "no-target", "bad-mask", "few"):
        assert not (workspace.folder / output).exists()


def test_long_documents_can_be_left_out(workspace):
    """At a context of 200 the corpus has three documents that are longer, of 301, 501 and 258 tokens."""
    dropped = ["data.context=200", "data.long_documents=drop"]
    text = "data: 3 of 12 documents longer than the context, left out: 1.1 k tokens dropped, 67.5%"
    done = train(workspace.config("dropped"), *dropped)
    assert text in done.stderr
    for line in metrics(workspace.folder / "dropped"):  # steps of more than an epoch
        assert line["longest"] == 129 and line["tokens"] >= TOKENS
    for command in ("plan", "compare", "fit"):
        done = run(command, workspace.config("dropped"), *settings(dropped))
        assert done.returncode == 0, done.stderr
        assert text.removeprefix("data: ") in " ".join(done.stdout.split())


@pytest.mark.parametrize("command", ["train", "plan", "compare", "fit"])
def test_a_dataset_of_which_nothing_is_left_is_refused(workspace, command):
    prefix = workspace.folder / "long"
    if not prefix.with_suffix(".idx").exists():
        (workspace.folder / "long-text").mkdir()
        (workspace.folder / "long-text" / "a.txt").write_text("a" * 50)
        assert run("data", "build", "--from", workspace.folder / "long-text", "--out", prefix).returncode == 0
    done = run(command, workspace.config("nothing-left"),
               *settings([f"data.prefix={prefix}", "data.context=50", "data.long_documents=drop"]))
    assert_refused(done, "long", "has 1 documents", "longer than the context of 50", "raise the context")
    lengths = workspace.folder / "long.txt"
    lengths.write_text("51\n")
    if command != "train":
        done = run(command, workspace.config("nothing-left"), "--lengths", lengths,
                   *settings(["data.context=50", "data.long_documents=drop"]))
        assert_refused(done, "long.txt", "longer than the context of 50")


def held_out(workspace, output, *sources):
    file = workspace.config(output)
    tables = [f"\n[[evaluation.sources]]\n{source}\n" for source in sources]
    file.write_text(file.read_text() + "[evaluation]\nevery = 2\n" + "".join(tables))
    return file


def evaluated(folder):
    return [{k: v for k, v in line.items() if k not in ("evaluation_ns", "unix_ms")}
            for line in all_metrics(folder) if "evaluation_loss" in line]


def test_each_held_out_set_has_its_loss(workspace):
    both = ['name = "own"\nprefix = "corpus"', 'name = "foreign"\nprefix = "other"']
    done = train(held_out(workspace, "sets", *both))
    lines = evaluated(workspace.folder / "sets")
    assert [(line["step"], line["evaluation_name"]) for line in lines] == [
        (0, "own"), (0, "foreign"), (2, "own"), (2, "foreign"), (3, "own"), (3, "foreign")]
    for name, prefix in (("own", "corpus"), ("foreign", "other")):
        workspace.train(f"only-{name}", "evaluation.every=2", f"evaluation.prefix={workspace.folder}/{prefix}")
        alone = evaluated(workspace.folder / f"only-{name}")
        assert [{k: v for k, v in line.items() if k != "evaluation_name"} for line in lines
                if line["evaluation_name"] == name] == alone
        assert f"\nevaluation of {name} after step 2: loss {alone[1]['evaluation_loss']:.4f} on " in done.stderr
        assert (f"\nevaluation loss of {name} {alone[0]['evaluation_loss']:.4f} → "
                f"{alone[-1]['evaluation_loss']:.4f}\n") in done.stdout


def test_a_run_that_goes_on_evaluates_the_sets_at_the_same_steps(workspace):
    both = ['name = "own"\nprefix = "corpus"', 'name = "foreign"\nprefix = "other"']
    steps = ["train.steps=5", "checkpoint.every=1", "checkpoint.keep_last=9"]
    train(held_out(workspace, "sets-whole", *both), *steps)
    whole = workspace.folder / "sets-whole"
    for step in (2, 3):  # the second was evaluated
        part = workspace.folder / f"sets-{step}"
        shutil.copytree(whole / "checkpoints" / f"step-{step:08}", part / "checkpoints" / f"step-{step:08}")
        shutil.copy(whole / "metrics.jsonl", part)
        done = run("train", held_out(workspace, part.name, *both), *settings(steps), "--resume", "auto")
        assert done.returncode == 0, done.stderr
        assert evaluated(part) == evaluated(whole)
        assert learned(part) == learned(whole)


def test_the_loss_is_told_by_length(workspace):
    """Two documents of 2,001 tokens, one of 5,001, and those of the corpus, all below 1,024."""
    folder = workspace.folder / "mixed-lengths"
    shutil.copytree(workspace.folder / "text", folder)
    r = random.Random(4)
    for i, length in enumerate([2000, 5000, 2000]):
        (folder / f"long-{i}.txt").write_text("".join(r.choice("abcd ") for _ in range(length)))
    prefix = workspace.folder / "lengths"
    assert run("data", "build", "--from", folder, "--out", prefix).returncode == 0
    usual = ["data.context=8192", "evaluation.every=3", "train.dtype=fp64"]
    done = run("train", workspace.config("by-length", max_position_embeddings=8192),
               *settings([*usual, f"evaluation.prefix={prefix}"]))
    assert done.returncode == 0, done.stderr
    line = evaluated(workspace.folder / "by-length")[0]
    parts = line["evaluation_by_length"]
    assert [(p["from"], p["below"], p["sequences"], p["tokens"]) for p in parts] == [
        (0, 1024, 12, TOKENS), (1024, 4096, 2, 4002), (4096, 16384, 1, 5001)]
    targets = [TOKENS - 12, 4000, 5000]
    mean = sum(p["loss"] * n for p, n in zip(parts, targets, strict=True)) / sum(targets)
    assert line["evaluation_loss"] == pytest.approx(mean, rel=1e-12)
    first = next(text for text in done.stderr.splitlines() if text.startswith("evaluation after step 0"))
    assert f"; by length: below 1K {parts[0]['loss']:.4f}, 1K–4K {parts[1]['loss']:.4f}, 4K–16K " in first
    # The loss of one range is that of its documents alone.
    (folder / "short").mkdir()
    for i in (0, 2):
        shutil.copy(folder / f"long-{i}.txt", folder / "short")
    middle = workspace.folder / "middle"
    assert run("data", "build", "--from", folder / "short", "--out", middle).returncode == 0
    done = run("train", workspace.config("middle-length", max_position_embeddings=8192),
               *settings([*usual, f"evaluation.prefix={middle}"]))
    assert done.returncode == 0, done.stderr
    assert evaluated(workspace.folder / "middle-length")[0]["evaluation_loss"] == pytest.approx(
        parts[1]["loss"], rel=1e-12)
