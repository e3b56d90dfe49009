"""The outputs of `slimpack train`: metrics, timeline, a checkpoint for transformers, and its log."""

import json
import math
import os
import re
import shutil
import subprocess
from collections import Counter

import pytest
import torch
from hugging_face_loss import hugging_face_loss
from program import (SLIMPACK, TOKENS, losses, metrics, newest_checkpoint, read_documents, run,
                     settings, weights)
from terminal import on_terminal
from transformers import AutoModelForCausalLM


def numbers(value):
    if isinstance(value, list):
        return [n for v in value for n in numbers(v)]
    return [value]


def test_metrics_have_a_line_of_finite_numbers_for_each_step_and_the_loss_falls(workspace):
    lines = metrics(workspace.train("metrics", "train.steps=8", "parallel.pp=2"))
    assert [line["step"] for line in lines] == list(range(1, 9))
    for line in lines:
        assert line.pop("clock") == "wall"
        assert all(math.isfinite(n) for value in line.values() for n in numbers(value)), line
        assert (line["documents"], line["sequences"], line["tokens"]) == (12, 12, TOKENS)
        # Every token is a target but the first of each sequence.
        assert (line["targets"], line["padding"], line["left_out"]) == (TOKENS - 12, 0, 0)
        busy = sum(line[f"{part}_ns"] for part in ("forward", "backward", "optimizer", "reduction"))
        assert busy / line["step_ns"] == pytest.approx(1 - line["bubble"], abs=1e-6)
        assert busy + line["waiting_ns"] <= line["step_ns"] and line["reading_ns"] >= 0
        assert len(line["peak_activation_bytes"]) == 2
        assert 0 <= line["bubble"] < 1
    curve = [line["loss"] for line in lines]
    # A model that knows only that 5 of the 257 tokens occur has a loss of about ln 5 = 1.6.
    assert curve == sorted(curve, reverse=True) and curve[-1] < curve[0] - 1


@pytest.fixture(scope="module")
def usual_losses(workspace):
    return losses(workspace.train("usual", "train.dtype=fp64"))


@pytest.mark.parametrize("recompute", ["nothing", "attention", "mlp", "full", "auto"])
def test_what_is_computed_again_does_not_change_what_is_learned(workspace, usual_losses, recompute):
    folder = workspace.train(recompute, "train.dtype=fp64", "parallel.pp=2", f"plan.recompute={recompute}")
    assert losses(folder) == pytest.approx(usual_losses, rel=1e-9)


def test_the_timeline_has_a_predicted_and_a_measured_process_with_a_thread_per_rank(workspace):
    folder = workspace.train("timeline", "parallel.pp=4")
    events = json.loads((folder / "timeline.json").read_text())["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert sorted(processes.values()) == ["measured", "predicted"]
    threads = [(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"]
    assert sorted(threads) == sorted((pid, rank) for pid in processes for rank in range(4))
    spans = [e for e in events if e["ph"] == "X"]
    assert {(e["pid"], e["tid"]) for e in spans} == set(threads)
    assert all(e["ts"] >= 0 and e["dur"] >= 0 for e in spans)


def test_the_timeline_says_which_tokens_of_which_documents_ran_where(workspace):
    """Forward and backward, predicted and measured, each rank says which slices it ran. Over the
    replicas every token of the step comes once in each pass."""
    folder = workspace.train("named", "train.steps=1", "parallel.pp=2", "parallel.dp=2",
                             "parallel.tp=2", "data.context=100", "plan.most_merged=1")
    events = json.loads((folder / "timeline.json").read_text())["traceEvents"]
    names = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert names == {f"rank {4 * r + 2 * s + t}: replica {r}, stage {s}, tensor {t}"
                     for r in range(2) for s in range(2) for t in range(2)}
    # By process, stage, tensor-parallel rank and pass: how often each token of each document came.
    came = {}
    for event in events:
        if event["ph"] != "X" or event["cat"] not in ("forward", "backward"):
            continue
        args = event["args"]
        assert event["tid"] == 4 * args["replica"] + 2 * args["stage"] + args["tensor"]
        seen = came.setdefault((event["pid"], args["stage"], args["tensor"], event["cat"]), Counter())
        for text in args["slices"]:
            document, begin, end = map(int, re.fullmatch(r"document (\d+) \[(\d+), (\d+)\)",
                                                         text).groups())
            seen.update((document, token) for token in range(begin, end))
    documents = read_documents(workspace.folder / "corpus")
    everything = Counter((d, t) for d, tokens in enumerate(documents) for t in range(len(tokens)))
    assert len(came) == 2 * 2 * 2 * 2
    assert all(seen == everything for seen in came.values())


@pytest.mark.parametrize("family, model, dtype", [
    ("llama", dict(attention_bias=True, mlp_bias=True), "fp32"),
    ("qwen2", dict(tie_word_embeddings=True), "fp32"),
    ("qwen3", dict(head_dim=16), "fp32"),
    ("mistral", dict(rope_theta=5e5), "fp32"),
    ("llama", {}, "fp64"),
    ("mistral", dict(sliding_window=50), "fp64"),
    ("qwen2", dict(use_sliding_window=True, sliding_window=30, max_window_layers=2), "fp64"),
    ("qwen3", dict(tie_word_embeddings=True), "bf16"),
])
def test_transformers_loads_the_checkpoint_and_finds_the_same_loss(workspace, family, model, dtype):
    # The metrics have the loss before the update; this one is too small to change a weight.
    still = ["train.steps=1", "train.learning_rate=1e-30", "train.min_learning_rate=0",
             "train.weight_decay=0", "parallel.pp=2", f"train.dtype={dtype}"]
    folder = workspace.train(f"{family}-{dtype}", *still, family=family, model=model)
    (line,) = metrics(folder)
    loaded = AutoModelForCausalLM.from_pretrained(newest_checkpoint(folder), dtype="auto")
    formats = dict(fp32=torch.float32, fp64=torch.float64, bf16=torch.bfloat16)
    assert {p.dtype for p in loaded.parameters()} == {formats[dtype]}
    loss = hugging_face_loss(loaded.float(), read_documents(workspace.folder / "corpus"))
    # bf16 has 8 bits: each rounding errs by up to 2^-9, and their errors cancel in a mean over
    # 1,558 targets. transformers runs all three in fp32 here.
    assert line["loss"] == pytest.approx(loss, rel=1e-2 if dtype == "bf16" else 1e-5)


STILL = ["train.steps=1", "train.learning_rate=1e-30", "train.min_learning_rate=0",
         "train.weight_decay=0", "data.context=100"]


def test_long_documents_are_split_at_the_context_and_lose_no_token(workspace):
    done = run("train", workspace.config("split"), *settings([*STILL, f"data.step_tokens={TOKENS}"]))
    assert done.returncode == 0, done.stderr
    folder = workspace.folder / "split"
    (line,) = metrics(folder)
    documents = read_documents(workspace.folder / "corpus")
    sequences = [d[i:i + 100] for d in documents for i in range(0, len(d), 100)]
    # Longer than 100 are those of 301, 121, 501, 129 and 258 tokens: 4 + 2 + 6 + 2 + 3 sequences.
    assert ("\ndata: 5 of 12 documents longer than the context, split into 17 sequences: "
            "no token is dropped\n" in done.stderr)
    assert (line["documents"], line["sequences"], line["tokens"]) == (12, 7 + 17, TOKENS)
    model = AutoModelForCausalLM.from_pretrained(newest_checkpoint(folder))
    assert line["loss"] == pytest.approx(hugging_face_loss(model, sequences), rel=1e-5)


def test_long_documents_are_truncated_where_the_run_file_says_so(workspace):
    done = run("train", workspace.config("truncate"),
               *settings([*STILL, "data.step_tokens=760", "data.long_documents=truncate"]))
    assert done.returncode == 0, done.stderr
    folder = workspace.folder / "truncate"
    (line,) = metrics(folder)
    kept = [d[:100] for d in read_documents(workspace.folder / "corpus")]
    # One step holds it all: 5 documents are longer, the others have 6 + 41 + 2 + 34 + 65 + 91 + 21.
    assert line["tokens"] == sum(map(len, kept)) == 5 * 100 + 260
    # 201 + 21 + 401 + 29 + 158 = 810 of 1,570 tokens: 51.6%.
    assert ("data: 5 of 12 documents longer than the context, truncated: 810 tokens dropped, 51.6%\n"
            in done.stderr)
    model = AutoModelForCausalLM.from_pretrained(newest_checkpoint(folder))
    assert line["loss"] == pytest.approx(hugging_face_loss(model, kept), rel=1e-5)


def test_the_same_run_twice_gives_the_same_bits_and_another_seed_does_not(workspace):
    overrides = ["parallel.pp=2", "data.step_tokens=400"]
    first, second, other = (
        weights(workspace.train(name, *overrides, f"train.seed={seed}"))
        for name, seed in (("first", 7), ("second", 7), ("other", 8)))
    assert first == second
    assert first != other


@pytest.fixture(scope="module")
def one_stage_losses(workspace):
    return losses(workspace.train("one-stage", "train.steps=4", "plan.planner=packed"))


@pytest.mark.parametrize("planner", ["slimpack", "packed", "slimpipe", "zeppelin", "context-parallel",
                                     "token-balanced"])
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_every_plan_trains_along_the_same_losses(workspace, one_stage_losses, planner, stages):
    folder = workspace.train(f"{planner}-{stages}", "train.steps=4", f"plan.planner={planner}",
                             f"parallel.pp={stages}")
    assert losses(folder) == pytest.approx(one_stage_losses, rel=1e-4)


@pytest.mark.parametrize("stages", [1, 2])
def test_zones_train_along_the_same_losses(workspace, one_stage_losses, stages):
    folder = workspace.train(f"zones-{stages}", "train.steps=4", "plan.planner=zeppelin",
                             f"parallel.pp={stages}", "parallel.dp=4", "plan.most_merged=4")
    assert losses(folder) == pytest.approx(one_stage_losses, rel=1e-4)
    packs = json.loads((folder / "plan.json").read_text())["plan"]["replicas"][0]["forward"]
    assert all(pack["zones"] for pack in packs)


@pytest.mark.parametrize("comm_type", ["direct", "p2p", "all_gather"])
def test_links_slow_steps_and_leave_losses(workspace, one_stage_losses, comm_type, tmp_path):
    """Two nodes of two ranks. Virtual time does not wait for links: slow ones take minutes there, so
    that what a busy machine adds to the ranks' own time is nothing beside them."""
    seconds = {}
    for name, speed in (("slow", 1e4), ("fast", 1e10)):
        links = tmp_path / f"{name}.toml"
        links.write_text(f"ranks_per_node = 2\nnics_per_node = 2\nlink_latency_us = 0\n"
                         f"node_link_latency_us = 0\nnode_link_bytes_per_second = {speed}\n"
                         f"link_bytes_per_second = {speed / 8}\n")
        folder = workspace.train(f"links-{comm_type}-{name}", "train.steps=4", "train.clock=virtual",
                                 "plan.planner=zeppelin", "parallel.dp=4", "plan.most_merged=4",
                                 f"train.links={links}", f"parallel.cp_comm_type={comm_type}",
                                 "parallel.cp_route=true")
        assert losses(folder) == pytest.approx(one_stage_losses, rel=1e-4)
        seconds[name] = [line["step_ns"] for line in metrics(folder)]
    assert min(seconds["slow"]) > 2 * max(seconds["fast"])


def test_links_need_virtual_time(workspace, tmp_path):
    links = tmp_path / "links.toml"
    links.write_text("")
    done = run("train", workspace.config("links-wall"), "--set", f"train.links={links}")
    assert done.returncode == 2
    assert "train.links is" in done.stderr and "set train.clock to virtual" in done.stderr


def test_split_backwards_train_like_whole_ones(workspace):
    stages = ["train.steps=4", "parallel.pp=4", "train.dtype=fp64"]
    whole = workspace.train("whole-backwards", *stages)
    split = workspace.train("split-backwards", *stages, "plan.backward=split")
    events = json.loads((split / "timeline.json").read_text())["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    ran = {}
    for event in events:
        if event["ph"] == "X":
            kinds = ran.setdefault((processes[event["pid"]], event["tid"]), Counter())
            kinds[event["cat"]] += 1
    for rank in range(4):
        measured, predicted = ran["measured", rank], ran["predicted", rank]
        for kind in ("forward", "backward", "input_gradient", "weight_gradient"):
            assert measured[kind] == predicted[kind], (rank, kind)
    # So few tokens leave four stages waits that weight gradients fill.
    assert sum(ran["measured", rank]["weight_gradient"] for rank in range(4)) > 0
    assert losses(split) == pytest.approx(losses(whole), rel=1e-9)


@pytest.mark.parametrize("name, model", [
    ("measured", {}),
    ("measured-windows", dict(family="qwen2", use_sliding_window=True, sliding_window=60, max_window_layers=2)),
])
def test_measured_costs_serve_plan_and_train(workspace, tmp_path, name, model):
    file = workspace.config(name, **model)
    file.write_text(file.read_text().replace("[hardware]", ""))
    cost = tmp_path / "cost.json"
    done = run("profile", file, "--out", cost, "--json", tmp_path / "ratios.json")
    assert done.returncode == 0, done.stderr
    ratios = json.loads((tmp_path / "ratios.json").read_text())
    assert [r["tokens"] for r in ratios] == [256, 1024]  # powers of four up to the context
    assert all(n > 0 for r in ratios for n in r.values())
    # Two ranks share what the machine has left; fit and plan hold a step against it.
    assert 0 < json.loads(cost.read_text())["memory"] < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert "memory of a rank: " in done.stdout
    use = settings([f"cost.file={cost}"])
    assert "memory of a rank: " in run("fit", file, *use).stdout
    planned = run("plan", file, *use, "--out", tmp_path / "plan.json")
    trained = run("train", file, *use)
    assert (planned.returncode, trained.returncode) == (0, 0), planned.stderr + trained.stderr
    assert "cost: profile of this machine" in trained.stderr
    predictions = {line["predicted_step_ns"] for line in metrics(workspace.folder / name)}
    plan = run("simulate", tmp_path / "plan.json", "--json", tmp_path / "simulated.json")
    assert plan.returncode == 0, plan.stderr
    # Every step holds the whole corpus, in another order.
    makespan = json.loads((tmp_path / "simulated.json").read_text())["makespan_ns"]
    assert all(p == pytest.approx(makespan, rel=0.01) for p in predictions)


@pytest.mark.parametrize("grid", [(), ("parallel.dp=2", "parallel.tp=2", "train.clock=virtual")])
def test_without_costs_train_measures_them_first(workspace, grid):
    name = f"measuring-{len(grid)}"
    file = workspace.config(name)
    file.write_text(file.read_text().replace("[hardware]", ""))
    done = run("train", file, *settings(grid))
    assert done.returncode == 0, done.stderr
    assert "cost: profile of this machine" in done.stderr
    assert len(metrics(workspace.folder / name)) == 3
    # The next run takes them, unless other work disturbed the measurement.
    disturbed = "something else seems to run on this machine" in done.stderr
    assert (workspace.folder / name / "cost.json").exists() != disturbed


def test_a_plain_log_has_one_line_for_each_step(workspace):
    file = workspace.config("plain")
    done = subprocess.run([SLIMPACK, "train", file], capture_output=True, timeout=60, check=True)
    log = done.stderr.decode()
    assert not re.search(r"[\r\x1b]", log)
    steps = [line for line in log.splitlines() if line.startswith("step ")]
    assert [line.split()[1] for line in steps] == ["1/3", "2/3", "3/3"]
    assert done.stdout.decode().startswith("\nloss ")


@pytest.mark.whole
def test_the_steps_of_a_run_are_those_of_longer_runs(workspace):
    """Documents that are drawn ahead change nothing, nor does the epoch's end among these steps."""
    overrides = ["parallel.pp=2", "data.step_tokens=700"]
    deterministic = ["loss", "gradient_norm", "documents", "tokens", "longest", "predicted_step_ns"]
    runs = [[[line[key] for key in deterministic] for line in
             metrics(workspace.train(f"steps-{steps}", *overrides, f"train.steps={steps}"))]
            for steps in (1, 2, 3, 5)]
    for shorter in runs:
        assert shorter == runs[-1][:len(shorter)]


def test_the_wait_for_plans_is_told_for_each_step_and_for_the_run(workspace):
    file = workspace.config("waiting")
    done = run("train", file)
    assert done.returncode == 0, done.stderr
    lines = metrics(workspace.folder / "waiting")
    assert all(line["planning_ns"] > 0 and line["planning_wait_ns"] >= 0 for line in lines)
    steps = [line for line in done.stderr.splitlines() if line.startswith("step ")]
    told = [bool(re.search(r"  waited [\d.]+ (ms|s) for the plan$", step)) for step in steps]
    # A millisecond is where waits begin to matter.
    assert told == [line["planning_wait_ns"] >= 1_000_000 for line in lines]
    assert re.search(r"^planning took .+, of which training waited .+ \(.+ for the first step\)$",
                     done.stdout, re.MULTILINE)


def compared_run(workspace, name, *overrides):
    done = run("train", workspace.config(name), *settings(["parallel.pp=2", *overrides]),
               "--against", "packed", "--report")
    assert done.returncode == 0, done.stderr
    measured = json.loads((workspace.folder / name / "measured.json").read_text())
    return done, measured


def test_against_packed_compares_the_two_by_turns(workspace):
    done, measured = compared_run(workspace, "against")
    assert re.findall(r"^compare: turn (\d) of 3: sliced [^,]+, packed .+$", done.stderr,
                      re.MULTILINE) == ["1", "2", "3"]
    assert "\nlast step again, packed" in done.stdout
    turns = measured["compared"]
    assert turns["clock"] == "virtual"  # whatever else runs here
    own, packed = turns["planners"]
    assert (own["planner"], packed["planner"]) == ("slimpack", "packed")
    assert len(own["step_ns"]) == len(packed["step_ns"]) == 3
    quotients = sorted(b / a for a, b in zip(own["step_ns"], packed["step_ns"]))
    assert turns["times_as_fast"] == pytest.approx(quotients[1])


def test_terminal_run_folder_and_report_have_the_same_comparison(workspace):
    done, measured = compared_run(workspace, "same-comparison")
    (printed,) = re.findall(r"(\d+\.\d\d) × as fast as fixed packing \+ 1F1B", done.stdout)
    assert done.stdout.count("×") == 1
    assert f"{measured['compared']['times_as_fast']:.2f}" == printed
    page = workspace.folder / "page.json"
    assert run("report", workspace.folder / "same-comparison", "--json", page).returncode == 0
    assert json.loads(page.read_text())["compared"] == measured["compared"]


def test_without_against_a_run_has_no_comparison(workspace):
    folder = workspace.train("uncompared", "parallel.pp=2")
    assert "compared" not in json.loads((folder / "measured.json").read_text())


def test_a_profile_in_the_output_folder_serves_the_runs_that_it_is_of(workspace):
    file = workspace.config("profiled")
    file.write_text(file.read_text().replace("[hardware]", ""))
    folder = workspace.folder / "profiled"
    folder.mkdir()
    assert run("profile", file, "--out", folder / "cost.json").returncode == 0
    profile = (folder / "cost.json").read_text()

    def log_of(*overrides):
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        done = run("train", file, *settings(["train.steps=1", *overrides]))
        assert done.returncode == 0, done.stderr
        assert (folder / "cost.json").read_text() == profile
        return done.stderr

    log = log_of()
    assert "measuring" not in log
    assert re.search(r"^this machine was measured [\d.]+ m?s ago: .*cost\.json; remove it to measure "
                     r"anew$", log, re.MULTILINE)
    log = log_of("parallel.pp=2")
    assert "measuring one layer on 2 threads" in log
    assert "replicas was 1 when it was measured, here it is 2" in log


@pytest.mark.parametrize("columns", [80, 120])
def test_all_lines_of_a_compared_run_fit_their_reader(workspace, columns):
    command = ["train", workspace.config(f"fits-{columns}"), "--against", "packed",
               *settings(["parallel.pp=2", f"output.dir=fits-{columns}"])]
    text, code = on_terminal([SLIMPACK, *command], columns, cwd=workspace.folder)
    assert code == 0, text
    piped = subprocess.run([SLIMPACK, *command, "--set", f"output.dir=piped-{columns}"],
                           cwd=workspace.folder, env={**os.environ, "SLIMPACK_COLUMNS": str(columns)},
                           capture_output=True, text=True, timeout=60, check=True)
    lines = text.splitlines() + piped.stdout.splitlines() + piped.stderr.splitlines()
    # A path is one word, however long.
    wide = [line for line in lines if len(line) > columns and " " in line.strip()]
    assert not wide


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_terminal_keeps_a_line_of_each_step_within_its_width(workspace, columns):
    text, code = on_terminal([SLIMPACK, "train", workspace.config(f"terminal-{columns}")], columns)
    assert code == 0, text
    steps = re.findall(r"^step [^\r\n]*", text, re.MULTILINE)
    assert [line.split()[1] for line in steps] == ["1/3", "2/3", "3/3"]
    for line in steps:
        assert len(line) <= columns
        assert "  loss " in line and " tok/s" in line and line == line.rstrip()
        assert ("docs" in line) == (columns == 120)


def test_on_a_terminal_an_error_gets_a_line_of_its_own(workspace):
    file = workspace.config("diverging")
    diverge = settings(["train.learning_rate=1e30", "train.min_learning_rate=1e30"])
    text, code = on_terminal([SLIMPACK, "train", file, *diverge], 200)
    assert code == 1
    assert re.search(r"step 1/3[^\r\n]*\r\nslimpack: failed: the gradient norm [^\r\n]*\r\n$", text), text
