"""Training with one process a rank on the stand-in for NCCL: it ends, with the bits of the thread
run; with the cause, if a process is lost."""

import itertools
import os
import re
import signal
import time
from pathlib import Path

import blocking
import pytest
from forking import forked_job
from program import TIMEOUT, complaint, losses, settings, tensors

WORKER = Path(blocking.__file__).with_name("blocking_worker.py")
PATIENCE = 60  # seconds after which what blocks hangs
STYLES = {
    "sliced": ["data.step_tokens=700"],
    "split": ["data.step_tokens=700", "plan.granularity=16", "plan.backward=split"],
    "ring": ["data.step_tokens=700", "parallel.stages_per_rank=2", "parallel.spread_vocabulary=true",
             "parallel.exchange_context=true"],
    "turning": ["data.step_tokens=1600", "plan.planner=packed", "data.context=128",
                "parallel.stages_per_rank=2", "parallel.placement=v", "plan.backward=split"],
    "zones": ["data.step_tokens=1200", "plan.planner=zeppelin"],
    # 14 MicroPacks on one replica: more than the stages need to fill the pipeline.
    "packed": ["data.step_tokens=1600", "plan.planner=packed", "data.context=128"],
}
CASES = [  # way, calls that synchronise, (pp, dp, tp), style
    ("lazy", "none", (2, 1, 1), "sliced"), ("eager", "none", (3, 1, 1), "packed"),
    ("eager", "first", (2, 1, 1), "sliced"), ("lazy", "every", (1, 2, 1), "sliced"),
    ("eager", "none", (2, 1, 1), "turning"), ("lazy", "every", (2, 2, 1), "turning"),
    ("eager", "none", (2, 1, 2), "split"), ("lazy", "first", (3, 2, 1), "split"),
    ("eager", "first", (2, 1, 1), "ring"), ("eager", "none", (1, 2, 1), "zones"),
]
if os.environ.get("SLIMPACK_GRID") == "all":
    GRIDS = [(1, 2, 1), (1, 1, 2), (2, 1, 1), (3, 1, 1), (4, 1, 1), (2, 2, 1), (2, 1, 2), (3, 2, 1),
             (3, 1, 2), (4, 2, 1), (4, 1, 2), (2, 2, 2)]
    # A ring has several stages and four layers; zones are those of replicas.
    CASES = [(way, synchronising, grid, style) for way, synchronising, grid, style in
             itertools.product(blocking.WAYS, blocking.SYNCHRONISING, GRIDS, STYLES)
             if not (style == "ring" and grid[0] != 2 or style == "zones" and grid[1] == 1)]


def name_of(case):
    way, synchronising, grid, style = case
    return f"{way}-{synchronising}-pp{grid[0]}dp{grid[1]}tp{grid[2]}-{style}"


@pytest.mark.parametrize("case", CASES, ids=map(name_of, CASES))
def test_training_ends_with_the_bits_of_threads(workspace, case):
    way, synchronising, (pp, dp, tp), style = case
    overrides = [f"parallel.pp={pp}", f"parallel.dp={dp}", f"parallel.tp={tp}", "train.steps=2",
                 *STYLES[style]]
    file = workspace.config(name_of(case))
    command = [WORKER, way, synchronising, PATIENCE, file, *settings(overrides)]
    with forked_job(workspace.folder, *[command] * (pp * dp * tp)) as processes:
        codes, said = processes.codes(), processes.text()
    assert not any(codes), said
    threads = workspace.train(f"{name_of(case)}-threads", *overrides)
    assert losses(workspace.folder / name_of(case)) == losses(threads)
    assert tensors(workspace.folder / name_of(case)) == tensors(threads) != {}


@pytest.mark.parametrize("synchronising", ["none", "every"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_process_ends_the_others_with_the_cause(workspace, how, synchronising):
    """One that is stopped closes no connection: as over NCCL, what waits for it waits for ever."""
    name = f"lost-{how.name}-{synchronising}"
    overrides = ["parallel.pp=3", "data.step_tokens=400", "train.steps=100000", TIMEOUT]
    file = workspace.config(name)
    command = [WORKER, "eager", synchronising, PATIENCE, file, *settings(overrides)]
    with forked_job(workspace.folder, *[command] * 3) as processes:
        processes.wait_for("step      3/")
        processes.signal(1, how)
        start = time.monotonic()
        assert processes.codes(but=[1]) == [1, 1], processes.text()
        took, line = time.monotonic() - start, complaint(processes)
    # Whoever waits for it over Gloo, or watches it.
    says = "slimpack: rank [02]: rank 1 (does not answer|has not been heard of) "
    assert re.match(says, line), line
    assert took < PATIENCE / 2  # the timeout is 5 s: nobody waited until the stand-in gave up


@pytest.mark.parametrize(("way", "synchronising"), [("lazy", "none"), ("eager", "first")])
def test_measuring_ends(workspace, way, synchronising):
    """Round trips between stages, reductions over replicas, a layer with tensor-parallel ranks."""
    overrides = ["parallel.pp=2", "parallel.dp=2", "parallel.tp=2", "train.steps=1",
                 "data.step_tokens=700", "data.context=128", "plan.most_merged=2"]
    name = f"measured-{way}-{synchronising}"
    file = workspace.measured_config(name)
    command = [WORKER, way, synchronising, PATIENCE, file, *settings(overrides)]
    with forked_job(workspace.folder, *[command] * 8) as processes:
        codes, said = processes.codes(), processes.text()
    assert not any(codes), said
    assert "measuring one layer on 8 processes" in said
