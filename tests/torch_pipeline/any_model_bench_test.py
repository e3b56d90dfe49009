"""bench/any_model.py runs beside every schedule of torch's, on documents of some dozens of
tokens."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from processes import BUILD, environment
from slimpack.torch import profile
from transformers import LlamaConfig

BENCH = Path(__file__).parents[2] / "bench" / "any_model.py"
CONTEXT = 128


@pytest.fixture(name="cost", scope="module")
def fixture_cost(tmp_path_factory):
    # The benchmark's model, whose own profile takes a minute.
    config = LlamaConfig(vocab_size=256, hidden_size=256, num_hidden_layers=4,
                         num_attention_heads=8, num_key_value_heads=4, head_dim=32,
                         max_position_embeddings=CONTEXT, tie_word_embeddings=False,
                         intermediate_size=704)
    return profile(config, tmp_path_factory.mktemp("cost") / "cost.json", context=CONTEXT,
                   seconds=0.3)


@pytest.mark.whole
@pytest.mark.parametrize("schedules", [("1f1b", "interleaved"), ("zb", "gpipe"), ("bfs", "zbv"),
                                       ("dualpipev", "dualpipev")])
def test_all_ways_train_the_same_step(cost, tmp_path, schedules):
    rivals = [f"{schedule},pad,given" for schedule in schedules]
    done = subprocess.run(
        [sys.executable, BENCH, "--context", str(CONTEXT), "--step-tokens", "512", "--turns", "1",
         "--cost", cost, "--json", tmp_path / "figures.json", "--rivals", *rivals],
        capture_output=True, text=True, check=False,
        env={**environment(), "SLIMPACK_BUILD": str(BUILD)})
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert list(figures["rivals"].values()) == [
        f"{schedule} pad given {recompute}"
        for schedule, recompute in zip(schedules, ("all", "all-but-last"), strict=True)]
    ours = figures["losses"].pop("slimpack")
    for loss in figures["losses"].values():
        assert loss == pytest.approx(ours, rel=1e-5)  # fp32, in another order
    assert "predicted" in done.stdout
