"""Training with one process a rank: the bits of the thread run, and an end with one line when a
process is lost."""

import datetime
import json
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from forking import forked_job
from processes import environment
from program import TIMEOUT, complaint, evaluations, losses, newest_checkpoint, settings, worker

import slimpack.worker
from slimpack import InvalidInput, runtime

GRIDS = {
    2: [["parallel.pp=2"], ["parallel.dp=2", "plan.backward=split"],
        ["parallel.pp=2", "parallel.stages_per_rank=auto"],
        ["parallel.pp=2", "parallel.spread_vocabulary=auto"],
        ["parallel.pp=2", "parallel.exchange_context=true", "plan.planner=slimpipe"]],
    4: [["parallel.pp=2", "parallel.dp=2"], ["parallel.dp=4", "train.dtype=bf16"],
        ["parallel.pp=2", "parallel.dp=2", "parallel.stages_per_rank=2"],
        ["parallel.pp=2", "parallel.tp=2", "parallel.spread_vocabulary=true"],
        ["parallel.pp=2", "parallel.tp=2", "parallel.exchange_context=true"],
        ["parallel.dp=4", "plan.planner=zeppelin"],
        ["parallel.dp=4", "plan.planner=zeppelin", "parallel.cp_comm_type=p2p",
         "parallel.cp_route=true"]],
    8: [["parallel.pp=2", "parallel.dp=2", "parallel.tp=2", "train.dtype=fp64"]],
}
LONG = ["data.step_tokens=400", "train.steps=100000"]


@pytest.mark.parametrize(("ranks", "overrides"),
                         [(n, grid) for n, grids in GRIDS.items() for grid in grids])
def test_processes_train_as_threads_do_bit_for_bit(workspace, ranks, overrides):
    name = f"ranks{ranks}-" + "-".join(o.split(".")[1].replace("=", "") for o in overrides)
    overrides = [*overrides, f"evaluation.prefix={workspace.folder}/corpus", "evaluation.every=2",
                 "evaluation.tokens=1000", "data.step_tokens=700"]
    threads = workspace.train(f"{name}-threads", *overrides)
    file = workspace.config(name)
    with forked_job(workspace.folder, *[worker(file, *overrides, TIMEOUT)] * ranks) as processes:
        assert processes.codes() == [0] * ranks, processes.text()
    assert losses(workspace.folder / name) == losses(threads)
    assert evaluations(workspace.folder / name) == evaluations(threads)
    assert [line["step"] for line in evaluations(threads)] == [0, 2, 3]
    assert same_weights(workspace.folder / name, threads)


def same_weights(a, b):
    files = [sorted(p.relative_to(f) for p in f.rglob("model*.safetensors")) for f in (a, b)]
    assert files[0] == files[1] and files[0]
    return all((a / f).read_bytes() == (b / f).read_bytes() for f in files[0])


def test_processes_measure_what_they_cost_each_other(workspace):
    overrides = ["parallel.pp=2", "parallel.dp=2", "data.step_tokens=700", "data.context=256",
                 "train.steps=2"]
    file = workspace.measured_config("measured")
    with forked_job(workspace.folder, *[worker(file, *overrides, TIMEOUT)] * 4) as processes:
        assert processes.codes() == [0] * 4, processes.text()
    assert "measuring one layer on 4 processes" in processes.text()
    file = newest_checkpoint(workspace.folder / "measured") / "cost.json"
    cost = json.loads(file.read_text())
    assert cost["source"] == "profile of this job, 4 processes at once, fp32"
    # Gloo copies: 16 MiB take longer than 4 KiB, which take some microseconds.
    assert cost["transfer_latency"] > 1e3 and cost["transfer_per_byte"] > 0
    assert cost["reduce_latency"] > 0 and cost["reduce_per_byte"] > 0
    # All processes have planned with the same costs.
    threads = workspace.train("measured-threads", *overrides, f"cost.file={file}")
    assert losses(workspace.folder / "measured") == losses(threads)


def test_torchrun_starts_the_workers(workspace):
    file = workspace.config("torchrun")
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         *worker(file, "parallel.pp=2")],
        capture_output=True, text=True, timeout=120, check=False, env=environment())
    assert done.returncode == 0, done.stderr
    assert len(losses(workspace.folder / "torchrun")) == 3


def test_on_gpus_the_group_of_all_ranks_connects_over_gloo_alone(workspace, monkeypatch):
    arguments = runtime.load().TrainArguments()
    arguments.config = str(workspace.config("groups"))
    arguments.overrides = ["parallel.dp=2"]
    groups = runtime.load().process_needs(arguments, 0, 2).groups
    made = []
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: None)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    # Torch lacks them on a machine without a GPU.
    options = SimpleNamespace(Options=lambda **_: SimpleNamespace(config=SimpleNamespace()))
    monkeypatch.setattr(dist, "ProcessGroupNCCL", options, raising=False)
    monkeypatch.setattr(dist, "new_group", lambda ranks, backend, device_id, **_: made.append(
        (ranks, backend, device_id)) or SimpleNamespace(group_name=""))
    slimpack.worker.connect(groups, "cuda", datetime.timedelta(seconds=5))
    gpu = torch.device("cuda", 3)
    by_name = dict(zip([g.name for g in groups], made, strict=True))
    assert by_name == {"world of 2 ranks": ([0, 1], "gloo", None),
                       "data of ranks 0, 1": ([0, 1], None, gpu),
                       "context of ranks 0, 1": ([0, 1], None, gpu)}


@pytest.mark.parametrize(("place", "parts"), [
    ({"LOCAL_WORLD_SIZE": "4x"}, ["LOCAL_WORLD_SIZE is 4x", "1 or more"]),
    ({"LOCAL_WORLD_SIZE": "0"}, ["LOCAL_WORLD_SIZE is 0"]),
    ({"LOCAL_WORLD_SIZE": "3"}, ["is 3, but the job has 4", "equally many on every node"]),
    # Nodes of one, one and two processes, as the third one sees them.
    ({"LOCAL_WORLD_SIZE": "2", "GROUP_WORLD_SIZE": "3"}, ["is 2 on 3 nodes, but the job has 4"]),
    ({}, ["parallel.cp_route", "LOCAL_WORLD_SIZE", "torchrun"]),
])
def test_what_the_launcher_says_of_nodes_must_be_sound(workspace, monkeypatch, place, parts):
    for name in ("LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    arguments = runtime.load().TrainArguments()
    arguments.config = str(workspace.config("nodes"))
    arguments.overrides = ["parallel.dp=4", "parallel.cp_route=true"]
    with pytest.raises(InvalidInput) as refused:
        runtime.load().process_needs(arguments, 0, 4)
    for part in parts:
        assert part in str(refused.value)


def test_the_replicas_of_a_node_have_groups_of_their_own(workspace, monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    arguments = runtime.load().TrainArguments()
    arguments.config = str(workspace.config("nodes"))
    arguments.overrides = ["parallel.dp=4"]
    names = [group.name for group in runtime.load().process_needs(arguments, 3, 4).groups]
    assert "data in node of ranks 2, 3" in names
    assert "data across nodes of ranks 1, 3" in names


def test_a_worker_alone_is_told_how_it_is_started(workspace):
    done = subprocess.run([sys.executable, *worker(workspace.config("alone"))], text=True,
                          capture_output=True, timeout=60, check=False, env=environment())
    assert done.returncode == 2
    assert "torchrun" in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("place", [{"RANK": "x", "WORLD_SIZE": "2"}, {"RANK": "-1", "WORLD_SIZE": "2"},
                                   {"RANK": "0", "WORLD_SIZE": str(2**40)}, {"RANK": "", "WORLD_SIZE": "1"}])
def test_a_place_in_the_job_that_is_none_is_refused_in_one_line(workspace, place):
    done = subprocess.run([sys.executable, *worker(workspace.config("alone"))], text=True, timeout=60,
                          capture_output=True, check=False, env={**environment(), **place})
    assert done.returncode == 2
    assert "must be a whole number; start the workers with torchrun" in done.stderr
    assert done.stderr.startswith("slimpack: ") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(("overrides", "parts"), [
    (["parallel.pp=4"], ["4 × 1 × 1 = 4 ranks", "2 processes"]),
    (["parallel.pp=2", "train.clock=virtual"], ["train.clock is virtual", "wall"]),
    (["parallel.pp=2", "plan.memory_cap=1"], ["plan.memory_cap"]),
    (["parallel.pp=2", "data.context=2000"], ["max_position_embeddings = 1024"]),
])
def test_what_cannot_run_is_refused_in_one_line(workspace, overrides, parts):
    file = workspace.config("refused")
    with forked_job(workspace.folder, *[worker(file, *overrides, TIMEOUT)] * 2) as processes:
        assert processes.codes() == [2, 2], processes.text()
        line = complaint(processes)
    for part in parts:
        assert part in line
    assert not (workspace.folder / "refused").exists()


def test_processes_that_draw_other_documents_do_not_train(workspace):
    file = workspace.config("unlike")
    commands = [worker(file, "parallel.pp=2", TIMEOUT, f"data.seed={seed}") for seed in (1, 2)]
    with forked_job(workspace.folder, *commands) as processes:
        assert processes.codes() == [2, 2], processes.text()
        line = complaint(processes)
    assert "step 1: ranks 0 and 1 have drawn different documents" in line


def test_what_another_process_would_plan_or_pay_does_not_matter(workspace):
    """The first process plans for all: with costs, cuts and a planner that the other does not have."""
    overrides = ["parallel.pp=2", f"evaluation.prefix={workspace.folder}/corpus", "evaluation.every=2",
                 "data.step_tokens=700"]
    threads = workspace.train("unlike-plans-threads", *overrides)
    file = workspace.config("unlike-plans")
    others = ["plan.planner=packed", "plan.granularity=16", "plan.time_budget=1", "plan.backward=whole",
              "hardware.linear_flops=1e12", "cost.file=nowhere.json"]
    commands = [worker(file, *overrides, *more, TIMEOUT) for more in ([], others)]
    with forked_job(workspace.folder, *commands) as processes:
        assert processes.codes() == [0, 0], processes.text()
    assert losses(workspace.folder / "unlike-plans") == losses(threads)
    assert evaluations(workspace.folder / "unlike-plans") == evaluations(threads)
    assert same_weights(workspace.folder / "unlike-plans", threads)


def test_processes_plan_with_a_time_budget(workspace):
    """Choices that the clock decides are decided once. `--against` plans twice more, in line."""
    file = workspace.config("budget")
    command = [*worker(file, "parallel.dp=2", "plan.time_budget=1", TIMEOUT), "--against", "packed"]
    with forked_job(workspace.folder, command, command) as processes:
        assert processes.codes() == [0, 0], processes.text()
        assert "sliced is " in processes.text()
    assert len(losses(workspace.folder / "budget")) == 3


def test_what_one_process_cannot_train_on_ends_all_with_its_cause(workspace):
    """Its own copy of the dataset is damaged, which the first process has not read; the steps before
    are saved, by all."""
    prefix, document = workspace.spoil_third_step("damaged-corpus")
    file = workspace.config("damaged")
    commands = [worker(file, "parallel.pp=2", "data.step_tokens=1", "checkpoint.every=1", TIMEOUT)
                for _ in range(2)]
    commands[1] += settings([f"data.prefix={prefix}"])
    with forked_job(workspace.folder, *commands) as processes:
        assert processes.codes() == [2, 2], processes.text()
        line = complaint(processes)
    assert f"document {document} holds token 257" in line and str(prefix) in line
    assert "after 2 of 3 steps" in line
    assert newest_checkpoint(workspace.folder / "damaged").name == "step-00000002"


def test_training_that_diverges_is_a_failed_run_in_all_processes(workspace):
    file = workspace.config("diverging")
    diverge = ["parallel.pp=2", "train.learning_rate=1e30", "train.min_learning_rate=1e30"]
    with forked_job(workspace.folder, *[worker(file, *diverge, TIMEOUT)] * 2) as processes:
        assert processes.codes() == [1, 1], processes.text()
        line = complaint(processes)
    assert "training has diverged" in line and "after " in line


def test_an_update_that_makes_infinite_weights_fails_in_all_processes_and_a_lower_rate_goes_on(workspace):
    """Only a rank knows its weights. The others hear of it, and none saves them."""
    file = workspace.config("infinite")
    usual = ["parallel.pp=2", "checkpoint.every=1", "checkpoint.keep_last=1", "data.step_tokens=200"]
    with forked_job(workspace.folder, *[worker(file, *usual, "train.steps=1", TIMEOUT)] * 2) as processes:
        assert processes.codes() == [0, 0], processes.text()
    more = [*usual, TIMEOUT, "train.learning_rate=1e39"]
    with forked_job(workspace.folder,
                    *[[*worker(file, *more), "--resume", "auto"]] * 2) as processes:
        assert processes.codes() == [1, 1], processes.text()
        line = complaint(processes)
    assert "made weights that are not finite numbers" in line and "after 1 of 3 steps" in line
    assert line.endswith("step-00000001)")
    assert newest_checkpoint(workspace.folder / "infinite").name == "step-00000001"
    with forked_job(workspace.folder, *[[*worker(file, *usual, TIMEOUT), "--resume", "auto"]] * 2) as processes:
        assert processes.codes() == [0, 0], processes.text()
    assert newest_checkpoint(workspace.folder / "infinite").name == "step-00000003"


@pytest.mark.parametrize("full", [0, 1])
def test_a_disk_that_is_full_for_one_process_is_a_failed_run_in_all(workspace, full):
    """Room for metrics, not for a stage's tensors."""
    command = worker(workspace.config(f"full{full}"), "parallel.pp=2", TIMEOUT)
    limited = workspace.folder / "limited.py"
    limited.write_text("import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
                       "from slimpack.command_line import end; from slimpack.worker import main; end(main)")
    commands = [command] * 2
    commands[full] = [limited, *command[2:]]
    with forked_job(workspace.folder, *commands) as processes:
        assert processes.codes() == [1, 1], processes.text()
        line = complaint(processes)
    assert "File too large" in line and "earlier checkpoints are intact" in line
    assert len(losses(workspace.folder / f"full{full}")) == 3


@pytest.mark.parametrize("local_rank", ["0", "1"])
def test_each_machine_says_what_its_own_configuration_lacks(workspace, local_rank):
    """One line a machine: on the second of two, process 2 of 4 is the first."""
    place = {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": local_rank}
    done = subprocess.run([sys.executable, *worker(workspace.folder / "nowhere.toml")], text=True,
                          capture_output=True, timeout=60, check=False, env=environment() | place)
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert len(lines) == (1 if local_rank == "0" else 0)
    assert all("rank 2: " in line and "nowhere.toml" in line for line in lines)


def lose(workspace, name, grid, rank, how):
    """Sends a signal to one of two processes that train; how long the other lives, and what it says."""
    commands = [worker(workspace.config(name), *grid, *LONG, TIMEOUT)] * 2
    with forked_job(workspace.folder, *commands) as processes:
        processes.wait_for("step     10/")
        processes.signal(rank, how)
        start = time.monotonic()
        assert processes.codes(but=[rank]) == [1], processes.text()
        took = time.monotonic() - start
        line = complaint(processes)
    # The process of rank 0 holds the store through which the ranks know of each other.
    assert f"rank {rank}" in line or (rank == 0 and "store" in line)
    return took, line


@pytest.mark.parametrize("grid", [["parallel.pp=2"], ["parallel.dp=2"]])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_that_dies_ends_the_job(workspace, grid, rank):
    took, line = lose(workspace, f"dies{rank}{grid[0][-4:-2]}", grid, rank, signal.SIGKILL)
    assert line.startswith(f"slimpack: rank {1 - rank}: ")
    assert took < 15


@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_that_is_stopped_ends_the_job_within_the_timeout(workspace, rank):
    took, _ = lose(workspace, f"stopped{rank}", ["parallel.pp=2"], rank, signal.SIGSTOP)
    assert took < 25  # the timeout is 5 s, the rest is for a busy machine


def test_a_scheduler_stops_all_processes_by_asking_one(workspace):
    commands = [worker(workspace.config("asked"), "parallel.pp=2", *LONG, TIMEOUT)] * 2
    with forked_job(workspace.folder, *commands) as processes:
        processes.wait_for("step     10/")
        processes.signal(1, signal.SIGTERM)
        assert processes.codes() == [0, 0], processes.text()
        line = complaint(processes)
    done = len(losses(workspace.folder / "asked"))
    assert line.startswith(f"slimpack: stopped on request after {done} of 100000 steps; ")
    assert newest_checkpoint(workspace.folder / "asked").name == f"step-{done:08}"
