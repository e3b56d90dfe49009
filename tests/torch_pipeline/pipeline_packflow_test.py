"""One plan, one Llama, two runtimes: PackFlow and the pipeline of Hugging Face layers."""

import random
import sys
from pathlib import Path

import pytest
from families import config_of, model_of
from trial import BOUND, random_case, run_locally

sys.path.insert(0, str(Path(__file__).parents[1] / "packflow" / "step"))

from driver import run_driver  # noqa: E402
from hugging_face import fp64_frequencies  # noqa: E402


@pytest.mark.parametrize("seed", range(6))
def test_the_same_plan_has_the_loss_and_gradients_of_packflow(seed, tmp_path):
    tied = random.Random(seed).random() < 0.5
    model = model_of(config_of("llama", tie_word_embeddings=tied), seed)
    # transformers rounds the frequencies of rotary positions to fp32, PackFlow does not.
    model.model.rotary_emb.inv_freq, _ = fp64_frequencies(model.config)
    plan, documents = random_case(seed)
    plan.save(tmp_path / "plan.json")
    out = run_driver(tmp_path, model, [tokens.tolist() for tokens in documents],
                     {"plan_file": str(tmp_path / "plan.json")}, "fp64")
    engine, (loss, _) = run_locally(model, plan, documents)
    assert loss == pytest.approx(out["loss"].item(), rel=BOUND)
    largest = [g.abs().max().item() for name, g in out.items() if name.startswith("gradient/")]
    floor = 1e-6 * max(largest)
    for stage in engine.stages:
        for name, parameter in stage.model.named_parameters():
            theirs = out["gradient/" + name]
            scale = max(theirs.abs().max().item(), floor)
            assert (parameter.grad - theirs).abs().max().item() <= BOUND * scale, name
