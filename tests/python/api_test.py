"""slimpack in Python: plans as the program makes them, NumPy without copies, errors that help."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import slimpack
from processes import BUILD

ROOT = Path(__file__).parents[2]
PROGRAM = BUILD / "slimpack"
PARALLEL = {"pp": 4, "dp": 2, "tp": 2}


@pytest.fixture(scope="module")
def job():
    return slimpack.Job("llama-3-8b", PARALLEL, "h100")


@pytest.fixture(scope="module")
def lengths():
    generator = np.random.default_rng(7)
    return np.minimum(generator.lognormal(7.5, 1.5, 200).astype(np.int64) + 1, 8192)


@pytest.fixture(scope="module")
def step(job, lengths):
    return job.plan(lengths)


RUN = """
[model]
config = "{model}"
[data]
context = {context}
[train]
dtype = "bf16"
device = "cuda"
[parallel]
pp = 4
dp = 2
tp = 2
"""


@pytest.fixture
def run_file(tmp_path, lengths):
    file = tmp_path / "run.toml"
    file.write_text(RUN.format(model=ROOT / "models" / "llama-3-8b.json", context=lengths.max()))
    return file


@pytest.mark.parametrize("planner", ["slimpack", "packed"])
def test_plans_are_those_of_the_program_byte_for_byte(lengths, run_file, tmp_path, planner):
    list_file = tmp_path / "lengths.txt"
    np.savetxt(list_file, lengths, fmt="%d")
    hardware = ROOT / "hardware" / "h100.toml"
    subprocess.run(
        [PROGRAM, "plan", run_file, "--lengths", list_file, "--out", tmp_path / "plan.json",
         "--set", f"hardware.file={hardware}", "--set", f"plan.planner={planner}"],
        check=True, capture_output=True)
    theirs = (tmp_path / "plan.json").read_text()
    assert slimpack.plan(lengths, "llama-3-8b", PARALLEL, "h100", planner=planner).to_json() == theirs
    by_run_file = slimpack.plan(lengths, run=run_file, hardware=hardware, planner=planner)
    assert by_run_file.to_json() == theirs
    loaded = slimpack.StepPlan.load(tmp_path / "plan.json")
    assert loaded.to_json() == theirs
    loaded.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == theirs
    assert not list(tmp_path.glob(".*"))  # nothing half-written stays


def test_every_token_is_in_one_slice_of_each_pass(step, lengths):
    for passes in ("forward", "backward"):
        covered = [np.zeros(n, dtype=int) for n in lengths]
        for replica in step.replicas:
            for pack in getattr(replica, passes):
                for sequence, begin, end in zip(pack.sequences, pack.begin, pack.end, strict=True):
                    covered[sequence][begin:end] += 1
                assert pack.tokens == int((pack.end - pack.begin).sum())
        assert all((tokens == 1).all() for tokens in covered)


def test_arrays_are_views_that_keep_the_plan_alive(job, lengths):
    step = job.plan(lengths)
    pack = step.replicas[0].forward[0]
    views = [step.lengths, pack.begin, step.busy_ns]
    assert [v.flags.owndata or v.flags.writeable for v in views] == [False] * 3
    assert np.shares_memory(pack.begin, pack.end) is False and pack.begin.strides == (24,)
    before = [v.copy() for v in views]
    del step, pack
    for _ in range(20):  # reuses memory that was freed too early
        job.plan(lengths[:50])
    assert all((v == b).all() for v, b in zip(views, before, strict=True))


def test_figures_are_those_of_the_timeline(step):
    timeline = step.timeline()
    end = int(timeline.end.max())
    assert step.makespan == pytest.approx(end / 1e9)
    busy = np.zeros(timeline.ranks, dtype=np.int64)
    names = np.array(slimpack._planner.span_kinds)
    working = ~np.char.startswith(names[timeline.kind], "wait")
    np.add.at(busy, timeline.rank[working], (timeline.end - timeline.start)[working])
    assert (busy == step.busy_ns).all()
    assert step.bubble_ratio == pytest.approx(1 - busy.sum() / (timeline.ranks * end))
    assert step.lower_bound <= step.makespan == pytest.approx(step.lower_bound * (1 + step.gap))
    assert step.figures["makespan_ns"] == end
    assert (slimpack.simulate(step).end == timeline.end).all()


def test_schedules_run_every_microPack_once(step):
    for index, replica in enumerate(step.replicas):
        for stage, actions in enumerate(step.schedule(index)):
            expected = [f"{stage}F{p}" for p in range(len(replica.forward))]
            expected += [f"{stage}B{p}" for p in range(len(replica.backward))]
            assert sorted(actions) == sorted(expected)
    with pytest.raises(IndexError):
        step.schedule(2)


def test_a_plan_has_what_its_file_says(step):
    content = json.loads(step.to_json())
    assert step.tp == content["cost"]["tp"]
    assert step.recompute_by_layer == content["plan"]["recompute"]
    assert step.recompute == {step.recompute_by_layer[0]: len(step.recompute_by_layer)}
    for index, text in enumerate(content["schedules"]):
        lines = [line.split(",") for line in text.splitlines()]
        assert step.schedule(index) == lines == [
            [f"{action.stage}{action.passes}{action.pack}" for action in rank]
            for rank in step.actions(index)]
        assert lines == [[str(of.action) for of in rank if of.operation == slimpack.Operation.COMPUTE]
                         for rank in step.instructions(index)]
        messages = [str(of) for rank in step.instructions(index) for of in rank
                    if of.operation != slimpack.Operation.COMPUTE]
        assert messages.count("0SEND_F0") == messages.count("1RECV_F0") == 1


def test_comparisons_have_a_row_for_each_planner(job, lengths):
    told = []
    comparison = job.compare(lengths, planners=["slimpack", "best-fit"], progress=told.append)
    assert told == ["slimpack", "best-fit"] == [row["planner"] for row in comparison.rows]
    ours, other = comparison.rows
    assert comparison.speedup("best-fit") == other["makespan_ns"] / ours["makespan_ns"] >= 1
    assert "best-fit" in str(comparison) and "best-fit" in comparison._repr_html_()
    with pytest.raises(slimpack.InvalidInput, match=r"'best' is unknown.*best-fit"):
        job.compare(lengths, planners=["best"])


def test_a_run_keeps_the_layers_of_its_stages():
    # The head of 128K words takes several layers' time of short documents, less of long ones.
    job = slimpack.Job("llama-3-8b", {"pp": 4}, "h100", dtype="bf16", memory_cap="none")
    short, long = [64] * 64, [8192] * 4
    free = [job.plan(lengths).layer_begin for lengths in (short, long)]
    assert free == [job.stages_for(short), job.stages_for(long)] and free[0] != free[1]
    fixed = job.with_stages(free[0])
    assert [fixed.plan(lengths).layer_begin for lengths in (short, long)] == [free[0]] * 2
    assert job.plan(long).layer_begin == free[1]


@pytest.mark.parametrize("layer_begin", [[0, 16], [0, 16, 31], [1, 16, 32], [0, 16, 16], []])
def test_layers_of_stages_that_are_none_are_refused(layer_begin):
    job = slimpack.Job("llama-3-8b", {"pp": 2}, "h100")
    with pytest.raises(slimpack.InvalidInput, match="must rise from 0 to the model's 32 layers"):
        job.with_stages(layer_begin)


def test_models_may_be_files_folders_dicts_and_transformers_configs(lengths, tmp_path):
    from transformers import AutoConfig

    file = ROOT / "models" / "llama-3-8b.json"
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(file.read_text())
    models = ["llama-3-8b", file, str(file), folder, json.loads(file.read_text()),
              AutoConfig.from_pretrained(folder)]
    plans = {slimpack.plan(lengths, model, PARALLEL, "h100").to_json() for model in models}
    assert len(plans) == 1


def test_memory_caps_hold_and_what_does_not_fit_is_told(lengths):
    capped = slimpack.plan(lengths, "llama-3-8b", PARALLEL, "h100", memory_cap="20GiB")
    assert capped.peak_activation_bytes.max() <= 20 * 2**30
    with pytest.raises(slimpack.InvalidInput, match=r"memory.cap"):
        slimpack.plan(lengths, "llama-3-8b", PARALLEL, "h100", memory_cap="1MiB")


def test_progress_is_told_and_ends_the_search_when_it_raises(lengths):
    class Enough(Exception):
        pass

    def stop(candidates):
        raise Enough(candidates)

    with pytest.raises(Enough):
        slimpack.plan(np.tile(lengths, 20), "llama-3-8b", {"pp": 8, "dp": 16}, "h100",
                      time_budget=30, progress=stop)


def test_pictures_have_a_box_for_each_pass(step):
    picture = step._repr_html_()
    packs = sum(len(r.forward) + len(r.backward) for r in step.replicas)
    assert picture.count("<rect") >= packs * step.stages
    assert "<svg" in picture and "replica 1 stage 3" in picture


def test_planning_needs_no_torch(lengths):
    code = ("import sys; sys.modules['torch'] = None\n"
            "import slimpack\n"
            f"step = slimpack.plan({lengths[:20].tolist()}, 'llama-3-8b', {PARALLEL}, 'h100')\n"
            "print(step.makespan)\n"
            "try: slimpack.train('run.toml')\n"
            "except ImportError as error: print(error)\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={"PYTHONPATH": str(BUILD / "python")})
    makespan, error = done.stdout.splitlines()
    assert float(makespan) > 0
    assert error.startswith("training needs torch, planning does not; pip install torch==")


def test_the_command_train_says_in_one_line_that_it_needs_torch():
    code = ("import sys; sys.modules['torch'] = None\n"
            "from slimpack.__main__ import main\n"
            "sys.argv[1:] = ['train', 'run.toml']\n"
            "main()\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          env={"PYTHONPATH": str(BUILD / "python")})
    assert done.returncode == 2
    assert done.stderr.startswith("slimpack: training needs torch, planning does not; pip install torch==")
    assert done.stderr.count("\n") == 1


def test_another_torch_is_refused_with_the_remedy(monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda package: "2.9.1+cpu")
    with pytest.raises(ImportError, match=r"PackFlow was built for torch 2\.\d+, installed is 2\.9\.1\+cpu; pip install"):
        slimpack.train("run.toml")


def test_python_m_slimpack_is_the_program():
    environment = {"PYTHONPATH": str(BUILD / "python")}
    ours = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True)
    theirs = subprocess.run([sys.executable, "-m", "slimpack", "--version"], capture_output=True,
                            text=True, check=True, env=environment)
    assert theirs.stdout == ours.stdout


def test_length_lists_and_statistics(tmp_path):
    file = tmp_path / "lengths.txt"
    file.write_text("3  # first\n\n5\n")
    lengths = slimpack.read_lengths(file)
    assert lengths.dtype == np.int64 and lengths.tolist() == [3, 5]
    assert slimpack.length_statistics([3, 5])["tokens"] == 8
    assert slimpack.split_documents([5, 2, 4], 2).tolist() == [2, 2, 1, 2, 2, 2]


def test_datasets_give_lengths_and_tokens(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"abc")
    (tmp_path / "b.txt").write_bytes(b"de")
    subprocess.run([PROGRAM, "data", "build", "--from", tmp_path, "--glob", "*.txt", "--out",
                    tmp_path / "set"], check=True, capture_output=True)
    dataset = slimpack.IndexedDataset.open(tmp_path / "set")
    assert len(dataset) == 2 and dataset.lengths().sum() >= 5
    assert [bytes(dataset[d][:n].astype(np.uint8)) for d, n in ((0, 3), (1, 2))] == [b"abc", b"de"]
    with pytest.raises(IndexError, match="document 2 of 2"):
        dataset[2]


def test_fit_tells_what_would_fit(lengths):
    fits = slimpack.fit(lengths, "llama-3-8b", PARALLEL, "h100")
    assert fits and fits.options == [] and "fits" in str(fits)
    large = slimpack.fit(lengths, "llama-3-70b", {"pp": 2, "dp": 1, "tp": 8}, "h100")
    assert not large and large.options
    changed = {call for option in large.options for call in option["settings"]}
    assert any(setting.startswith("parallel.") for setting in changed) and "--set" not in str(large)


@pytest.mark.cases
@pytest.mark.parametrize("options", [{"most_merged": 1}, {"planner": "packed"}], ids=str)
def test_changes_that_fit_are_printed_as_arguments_of_a_job(lengths, options):
    arguments = dict(model="llama-3-8b", parallel=PARALLEL, hardware="h100", memory_cap="3GB",
                     **options)
    fit = slimpack.fit(lengths, **arguments)
    printed = re.findall(r"^Job\(\.\.\., (.*?)\) ", str(fit), re.MULTILINE)
    assert len(printed) == len(fit.options) > 1
    assert "(memory_cap)" in str(fit) and "plan." not in str(fit)
    for changes in printed:
        assert slimpack.fit(lengths, **{**arguments, **eval(f"dict({changes})")}), changes


def crowded_job():
    """One layer of one head, which no further rank can share, and a GPU of 4 MB: some
    0.6 MB of weights, gradients and moments, and at least 64 bytes for each token."""
    model = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 257,
             "num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 48,
             "num_attention_heads": 1, "num_key_value_heads": 1,
             "max_position_embeddings": 1 << 17}
    figures = tomllib.loads((ROOT / "hardware" / "h100.toml").read_text())
    figures = {name: figure for name, figure in figures.items() if "link" not in name}
    figures |= {"memory_bytes": 4_000_000, "context_bytes": 1, "allocator_page_bytes": 1}
    return slimpack.Job(model, hardware=figures)


def test_a_refusal_names_arguments_and_methods_of_a_job(lengths):
    with pytest.raises(slimpack.InvalidInput, match="; raise memory_cap, use more stages"):
        slimpack.plan(lengths, "llama-3-8b", PARALLEL, "h100", memory_cap="1MB")
    with pytest.raises(slimpack.InvalidInput, match="; Job.fit looks for changes"):
        crowded_job().plan([1 << 17])


def test_a_document_that_no_change_makes_fit_is_to_be_split():
    text = str(crowded_job().fit([1 << 17]))
    assert "split the documents first (slimpack.split_documents)" in text and "data." not in text


def test_the_version_is_that_of_the_program():
    done = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"slimpack {slimpack.__version__} ")


NAMED_RUN = """
[model]
config = "llama-3-8b"
[data]
context = 8192
step_tokens = 60000
[train]
device = "cuda"
dtype = "bf16"
[parallel]
pp = 4
dp = 2
[hardware]
file = "h100"
"""


@pytest.fixture
def named_run(tmp_path, lengths):
    (tmp_path / "run.toml").write_text(NAMED_RUN)
    (tmp_path / "lengths.txt").write_text("".join(f"{n}\n" for n in lengths))
    return tmp_path / "run.toml"


def by_program(command, run_file, *arguments):
    done = subprocess.run([PROGRAM, command, run_file, "--lengths", run_file.parent / "lengths.txt",
                           *map(str, arguments), "--json", "-"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_steps_are_those_that_the_program_draws(named_run, lengths):
    job = slimpack.Job(run=named_run, context=8192)
    steps = job.steps(lengths, 3)
    (planner,) = by_program("plan", named_run, "--steps", 3)["planners"]
    assert [round(job.plan(step).makespan * 1e9) for step in steps] == \
        [step["makespan_ns"] for step in planner["steps"]]
    (short,) = job.steps(lengths, step_tokens=20_000)
    assert 20_000 <= short.sum() < 20_000 + 8192
    # Without a run file all of the longest document is one sequence.
    bare = slimpack.Job("llama-3-8b", {"pp": 4}, "h100")
    assert all(step.max() <= lengths.max() for step in bare.steps(lengths, 2, 60_000))
    with pytest.raises(slimpack.InvalidInput, match="steps is 0"):
        job.steps(lengths, 0)


def test_layouts_are_those_of_the_program(named_run, lengths):
    found = slimpack.Job(run=named_run, context=8192).layout(lengths, steps=2)
    program = by_program("layout", named_run, "--steps", 2)["searches"][0]["layouts"]
    assert [row["settings"] for row in found.rows] == [row["settings"] for row in program]
    assert found.best["tokens_per_second"] == pytest.approx(program[0]["tokens_per_second"])
    assert found.best["settings"][0].startswith("parallel.tp=")
    assert "tokens/s" in str(found) and "Known error" in str(found)
    alone = slimpack.layout(lengths[:8], "llama-3-8b", "h100", ranks=8)
    assert {(row["tp"] * row["pp"] * row["dp"]) for row in alone.rows} == {8}


def test_sweeps_are_those_of_the_program(named_run, lengths):
    job = slimpack.Job(run=named_run, context=8192)
    found = job.sweep(lengths, {"packs": [8, 32], "pp": [2, 4]})
    program = by_program("sweep", named_run, "--over", "packs=8,32", "--over", "pp=2,4")
    makespans = [point.get("makespan_ns") for point in program["points"]]
    assert [row.get("makespan_ns") for row in found.rows] == makespans
    assert any(makespans), "points that do not fit have none"
    assert found.best == found.rows[program["best"]]
    assert slimpack.sweep(lengths, "llama-3-8b", {"pp": 4}, "h100", over={"granularity": [128]}).best
    with pytest.raises(slimpack.InvalidInput, match="did you mean"):
        job.sweep(lengths, {"pakcs": [1]})
