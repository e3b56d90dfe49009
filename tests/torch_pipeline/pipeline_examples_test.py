"""The examples that train any model: on two processes, in seconds."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import slimpack
import slimpack.torch
import torch
import training_ranks
from forking import forked_job
from processes import environment
from ranks import outcomes, run
from smollm2_weights import fixture_weights, write_short_model  # noqa: F401
from slimpack.torch import pipeline
from slimpack.torch.pipeline.comparison import Fp64Casts, largest_difference, plain_step
from slimpack.torch.pipeline.local import LocalEngine, stages_of
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM
from trial import BOUND, random_case

EXAMPLES = Path(__file__).parents[2] / "examples"
ANY, OWN = EXAMPLES / "train_any_model.py", EXAMPLES / "train_own_module.py"
DEMO = EXAMPLES.parent / "models" / "demo.json"
DEMO_MOE = EXAMPLES.parent / "models" / "demo-moe.json"


def build_dataset(*arguments):
    subprocess.run([sys.executable, "-m", "slimpack", "data", "build", *arguments], check=True,
                   capture_output=True, env=environment())


@pytest.fixture(name="corpus", scope="module")
def fixture_corpus(tmp_path_factory):
    """The prefix of a dataset of some of the examples' own text, byte by byte."""
    folder = tmp_path_factory.mktemp("corpus")
    for i, line in enumerate(ANY.read_text().split("\n\n")):
        (folder / f"{i}.txt").write_text(line)
    build_dataset("--from", folder, "--glob", "*.txt", "--out", folder / "corpus")
    return folder / "corpus"


def trained(folder, *command):
    """The losses of an example on two ranks."""
    run(2, training_ranks.run_example, *command)
    return [line["loss"] for line in training_ranks.lines(folder)]


def test_llama_trains_on_two_stages_and_resumes(corpus, tmp_path):
    command = [ANY, corpus, "--model", DEMO, "--output", tmp_path,
               "--context", "256", "--step-tokens", "512", "--held-out", corpus]
    losses = trained(tmp_path, *command, "--steps", "3")
    assert losses[2] < losses[0]
    cost = tmp_path / "cost-fp32.json"
    measured = cost.stat().st_mtime_ns  # once, and then never again
    assert trained(tmp_path, *command, "--steps", "4", "--resume")[:3] == losses
    evaluated = training_ranks.evaluations(tmp_path)
    assert [line["step"] for line in evaluated] == [0, 3, 4]
    assert evaluated[-1]["evaluation_loss"] < evaluated[0]["evaluation_loss"]
    assert cost.stat().st_mtime_ns == measured
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    assert model.num_parameters() == slimpack.Job("demo", {}, "h100").parameters


@pytest.mark.whole
def test_an_adapter_trains_and_resumes(corpus, tmp_path):
    command = [ANY, corpus, "--model", DEMO, "--output", tmp_path, "--lora-rank", "4",
               "--context", "256", "--step-tokens", "512"]
    losses = trained(tmp_path, *command, "--steps", "3", "--hardware", "h100")
    assert trained(tmp_path, *command, "--steps", "4", "--resume")[:3] == losses  # and by what was measured
    assert (tmp_path / "cost-fp32-lora-4.json").exists()
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    assert merged.num_parameters() == slimpack.Job("demo", {}, "h100").parameters
    assert (tmp_path / "adapter" / "adapter_model.safetensors").exists()


def test_experts_train_on_two_replicas_that_share_them_out(corpus, tmp_path):
    losses = trained(tmp_path, ANY, corpus, "--model", DEMO_MOE, "--output", tmp_path, "--stages",
                     "1", "--shard", "--context", "256", "--step-tokens", "512", "--steps", "3",
                     "--hardware", "h100")
    assert losses[2] < losses[0]


@pytest.mark.whole
def test_experts_in_bf16_train_on_two_stages_by_what_was_measured(corpus, tmp_path):
    losses = trained(tmp_path, ANY, corpus, "--model", DEMO_MOE, "--output", tmp_path, "--dtype",
                     "bf16", "--context", "256", "--step-tokens", "512", "--steps", "3")
    assert losses[2] < losses[0]
    weights = AutoModelForCausalLM.from_pretrained(tmp_path / "model").state_dict()
    assert {tensor.dtype for tensor in weights.values()} == {torch.bfloat16}
    state = json.loads((tmp_path / "cost-bf16.json").read_text())["autograd"]["state_bytes"]
    assert state == {"weights": 2, "gradients": 4, "optimizer": 12}


def test_the_planner_chooses_what_is_computed_again_where_layers_were_measured(tmp_path):
    # Nanoseconds a token as if products took all the time: so to keep graphs is faster.
    file = slimpack.torch.profile(DEMO.parent / "demo.json", tmp_path / "cost-fp32.json",
                                  context=256, seconds=0.2)
    cost = json.loads(file.read_text())
    layer = cost["autograd"]["layers"][0]
    for part, backward in ((cost, 6000.0), (layer["nothing"], 4000.0),
                           (layer["elementwise"], 4200.0)):
        for name, time in (("forward", 2000.0), ("backward", backward)):
            part[name] = dict.fromkeys(part[name], 0.0) | {"per_token": time}
    file.write_text(json.dumps(cost))
    command = [ANY, "corpus", "--model", DEMO, "--output", tmp_path, "--context", "256"]
    chosen, = run(1, training_ranks.recompute_of_example, *command)
    assert chosen == ["nothing"]
    chosen, = run(1, training_ranks.recompute_of_example, *command, "--hardware", "h100")
    assert chosen == ["full"]


def test_processes_that_are_no_whole_replicas_are_told_so(corpus, tmp_path):
    command = [ANY, corpus, "--model", DEMO, "--output", tmp_path / "out", "--stages", "3"]
    for failed, (kind, message, _) in outcomes(2, training_ranks.run_example, *command):
        assert failed and kind == "InvalidInput"
        assert message.startswith("2 processes are no whole replicas of 3 stages; ")


@pytest.mark.parametrize("options, code, message", [
    (["--hardware", "abacus"], 2, "hardware 'abacus' is no file"),
    (["--learning-rate", "1e30", "--step-tokens", "64", "--hardware", "h100"], 1,
     "the gradient norm is nan"),
])
def test_a_run_that_cannot_go_on_ends_with_one_line(corpus, tmp_path, options, code, message):
    command = [ANY, corpus, "--model", DEMO, "--output", tmp_path, *options]
    with forked_job(tmp_path, command, command) as processes:
        assert processes.codes() == [code, code], processes.text()
        told = [line for line in processes.text().splitlines() if line.startswith("slimpack: ")]
    assert len(told) == 1 and message in told[0]
    assert "Traceback" not in processes.text()


def test_ctrl_c_saves_and_ends_with_one_line(corpus, tmp_path):
    command = [ANY, corpus, "--model", DEMO, "--output", tmp_path, "--context", "64",
               "--step-tokens", "64", "--steps", "100000"]
    with forked_job(tmp_path, command, command) as processes:
        processes.wait_for("step      2/100000")
        processes.signal(1, signal.SIGINT)
        assert processes.codes() == [130, 130], processes.text()
        told = [line for line in processes.text().splitlines() if line.startswith("slimpack: ")]
    done = len(training_ranks.lines(tmp_path))
    newest = tmp_path / "checkpoints" / f"step-{done:08}"
    assert told == [f"slimpack: stopped on request after {done} of 100000 steps; {newest} has "
                    "them, resume=True goes on"]
    assert newest.is_dir()
    assert "Traceback" not in processes.text()


@pytest.mark.whole
def test_a_module_of_ones_own_trains_on_two_stages(corpus, tmp_path):
    command = [OWN, corpus, tmp_path]
    with forked_job(tmp_path, command, command) as processes:
        assert processes.codes() == [0, 0], processes.text()
    losses = [line["loss"] for line in training_ranks.lines(tmp_path)]
    assert len(losses) == 10 and losses[-1] < losses[0]


def test_a_module_of_ones_own_has_the_gradients_of_plain_training():
    example = training_ranks.load_example(OWN)
    torch.manual_seed(1)
    model = example.OwnModel(example.OwnConfig()).double()
    plan, documents = random_case(1, stages=2, kind="sliced")
    stages = stages_of(lambda: example.OwnModel(example.OwnConfig()).double(), plan.layer_begin)
    for stage in stages:
        stage.model.load_state_dict(model.state_dict(), strict=False)
    with Fp64Casts():
        loss, _ = LocalEngine(stages).step(plan, documents)
        assert loss == pytest.approx(plain_step(model, documents), rel=BOUND)
    difference, name = largest_difference(model, stages)
    assert difference <= BOUND, name


@pytest.mark.whole
def test_a_real_model_goes_on_with_the_loss_that_transformers_finds(weights, tmp_path):
    smollm2 = tmp_path / "smollm2"
    write_short_model(weights, smollm2)
    text = "A cat sat on the mat, and the other cat sat beside it. " * 8
    lines = [json.dumps({"text": text[:n]}) + "\n" for n in (90, 200, 440)]
    (tmp_path / "text.jsonl").write_text("".join(lines))
    build_dataset("--from", tmp_path / "text.jsonl", "--tokenizer", smollm2 / "tokenizer.json",
                "--eod-token", "<|endoftext|>", "--out", tmp_path / "corpus")
    dataset = slimpack.IndexedDataset.open(tmp_path / "corpus")
    step_tokens = int(dataset.lengths().sum())
    losses = trained(tmp_path, ANY, tmp_path / "corpus", "--model", smollm2, "--output", tmp_path,
                     "--context", "64", "--step-tokens", step_tokens, "--steps", "2",
                     "--learning-rate", "1e-5")
    assert losses[1] < losses[0]
    model = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32)
    summed = targets = 0
    drawn = pipeline.StepSampler(dataset.lengths(), context=64, step_tokens=step_tokens).next_step()
    with torch.no_grad():
        for document, begin, length in zip(*drawn[:3], strict=True):
            tokens = torch.tensor(dataset[document][begin:begin + length], dtype=torch.int64)
            logits = model(tokens[None]).logits[0, :-1]
            summed += cross_entropy(logits, tokens[1:], reduction="sum").item()
            targets += len(tokens) - 1
    assert losses[0] == pytest.approx(summed / targets, rel=1e-5)
