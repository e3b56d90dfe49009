"""examples/smollm2.py: a real model goes on training, with the losses that transformers finds."""

import re
import subprocess
import sys

import pytest
from processes import environment
from smollm2_weights import EXAMPLE, fixture_weights, write_short_model  # noqa: F401


@pytest.mark.whole
def test_a_real_model_trains_with_the_losses_that_transformers_finds(weights, tmp_path):
    write_short_model(weights, tmp_path / "model")
    done = subprocess.run(
        [sys.executable, EXAMPLE, tmp_path, "--context", "256", "--settings", "train.steps=1",
         "train.warmup_steps=0", "data.step_tokens=512", "evaluation.tokens=1024"],
        capture_output=True, text=True, check=False, env=environment())
    assert done.returncode == 0, done.stderr
    pairs = re.findall(r"held-out loss \w+: ([\d.]+) over [\d,]+ tokens; transformers finds ([\d.]+)", done.stdout)
    (before, theirs_before), (after, theirs_after) = [tuple(map(float, pair)) for pair in pairs]
    # 6 decimals are printed: half of the last one is below 2e-7 of the loss.
    assert before == pytest.approx(theirs_before, rel=1e-5)
    assert after == pytest.approx(theirs_after, rel=1e-5)
    assert after != before
