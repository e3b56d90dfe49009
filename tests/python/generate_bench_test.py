"""bench/generate: models as GGUF files, tuning, prompts, and what it says of bad input."""

import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
import torch
from processes import BUILD, environment
from transformers import AutoModelForCausalLM, LlamaConfig

BENCH = Path(__file__).parents[2] / "bench" / "generate"
sys.path.insert(0, str(BENCH))

from prompts import Prompts  # noqa: E402
from tuning import Tuning  # noqa: E402

gguf_model = pytest.importorskip("gguf_model", reason="needs the package gguf")


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("form", ["f32", "bf16", "f16"])
def test_transformers_reads_the_weights_of_a_gguf_file(form, tied, tmp_path):
    torch.manual_seed(1)
    config = LlamaConfig(vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                         max_position_embeddings=128, rope_theta=5000.0, tie_word_embeddings=tied)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    gguf_model.write(model, tmp_path / "model.gguf", form)
    assert not list(tmp_path.glob("*.partial"))
    read = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="model.gguf", dtype=torch.float32)
    assert read.config.rope_parameters["rope_theta"] == 5000.0
    rounded = gguf_model.FORMATS[form][0]
    theirs = read.state_dict()
    for name, weight in model.state_dict().items():
        expected = weight.to(rounded).float() if weight.dim() > 1 else weight
        assert torch.equal(theirs[name], expected), name


class FakeEngine:
    """Takes as long as a formula says, whose best settings are not the usual ones."""

    def __init__(self):
        self.settings, self.calls = None, 0

    def load(self, settings):
        self.settings = settings

    def call(self, function, prompt, count):
        assert function == "generate"
        self.calls += 1
        threads, cache = self.settings["threads"], self.settings["cache"]
        return {"first_seconds": 1 / threads + {"a": 0.5, "b": 0.25}[cache],
                "decode_seconds": count * (threads + {"a": 0.5, "b": 0.25}[cache])}


def test_tuning_finds_the_best_settings_of_each_measure():
    choices = {"threads": [2, 1, 4], "cache": ["a", "b"]}
    engine = FakeEngine()
    tuning = Tuning(engine, engine.load, [1, 2], 4, lambda text: None)

    def brute_force(measure):
        def seconds(settings):
            engine.load(settings)
            return engine.call("generate", [1, 2], 4)[measure]
        return min((dict(zip(choices, values, strict=True)) for values in product(*choices.values())),
                   key=seconds)

    for measure in ("first_seconds", "decode_seconds"):
        assert tuning.best(choices, measure) == brute_force(measure)


def test_no_setting_is_timed_twice():
    engine = FakeEngine()
    tuning = Tuning(engine, engine.load, [1, 2], 4, lambda text: None)
    choices = {"threads": [2, 1], "cache": ["a", "b"]}
    tuning.best(choices, "first_seconds")
    calls = engine.calls
    tuning.best(choices, "first_seconds")
    assert engine.calls == calls


def test_prompts_are_the_longest_documents_joined(tmp_path):
    held_out = tmp_path / "held-out"
    held_out.mkdir()
    for name, text in (("a.py", "bb"), ("b.py", "aaaa"), ("c.py", "c")):
        (held_out / name).write_text(text)
    prompts = Prompts(tmp_path / "model", held_out)
    assert bytes(prompts.take(0, 3)) == b"aaa"
    assert bytes(prompts.take(0, 7)) == b"aaaabbc"
    assert bytes(prompts.take(1, 3)) == b"bbc"
    with pytest.raises(ValueError, match="held-out documents have 3 tokens from number 1 on, the prompt needs 4"):
        prompts.take(1, 4)


@pytest.mark.parametrize(("arguments", "message"), [
    (["--model", "other"], "has no model 'other': run bench/generate/prepare.py"),
    (["--new", "1"], "--new 1: "),
    (["--turns", "0"], "--turns 0: "),
    (["--lengths", "0"], "--lengths 0: "),
    (["--tuned", "missing.json"], "missing.json"),
])
def test_bad_input_ends_with_one_line(arguments, message, tmp_path):
    done = subprocess.run([sys.executable, BENCH / "rivals.py", "--out", tmp_path, *arguments],
                          capture_output=True, text=True, check=False, cwd=tmp_path,
                          env={**environment(), "SLIMPACK_BUILD": str(BUILD)})
    assert done.returncode == 2, done.stderr
    assert message in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
