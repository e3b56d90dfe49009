"""bench/gpu, as far as it goes without a GPU: its figures, and the page that people read."""

import json
import subprocess
import sys

import pytest
import torch
from processes import BUILD

SHAPE = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
         "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 256,
         "max_position_embeddings": 256, "hidden_act": "silu", "rms_norm_eps": 1e-5,
         "rope_theta": 10000.0, "tie_word_embeddings": True}


# A script in place of Python: it runs the profiler, and answers for the programs that need Hugging
# Face.
ANSWERS = """#!/bin/sh
case $1 in
*gpu_operators.py) exec {python} "$@" ;;
*gpu_gradients.py) echo '{{"tokens": 512, "packflow": 0.0123, "hugging_face": 0.0134}}' ;;
*) echo "{{\\"way\\": \\"way$3\\", \\"card\\": \\"CPU\\", \\"recomputes\\": false," \\
  "\\"seconds\\": 1.5, \\"peak_bytes\\": 1073741824}}" ;;
esac
"""


def run(tmp_path, *arguments, python=""):
    """The figures, the page and what was printed."""
    out = subprocess.run([BUILD / "bench" / "gpu", "--hugging-face", python, "--json",
                          tmp_path / "new" / "gpu.json", "--page", tmp_path / "gpu.md",
                          *arguments], capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr
    figures = json.loads((tmp_path / "new" / "gpu.json").read_text())
    return figures, (tmp_path / "gpu.md").read_text(), out.stdout


def require_readable(page, printed):
    assert page.startswith("# One training step on ")
    for line in printed.splitlines():
        assert len(line) <= 80 and line in page


@pytest.mark.whole
def test_a_measured_step_stands_beside_its_prediction(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(SHAPE))
    (tmp_path / "python").write_text(ANSWERS.format(python=sys.executable))
    (tmp_path / "python").chmod(0o755)
    figures, page, printed = run(tmp_path, "--device", "cpu", "--model", tmp_path / "config.json",
                                 "--context", "256", "--step-tokens", "512", "--repetitions", "1",
                                 python=tmp_path / "python")
    require_readable(page, printed)
    assert figures["tokens"] >= 512
    assert {"packed", "slimpack"} <= {way["way"] for way in figures["ways"]}
    for way in figures["ways"]:
        assert way["seconds"] > 0 and way["predicted_seconds"] > 0
        # Layers, stores and messages are counted byte by byte.
        peak = way["peak_activation_bytes"]
        assert abs(way["predicted_peak_activation_bytes"] / peak - 1) < 0.05
    shares = [operator["share"] for operator in figures["operators"]["operators"]]
    assert len(shares) == 40 and sum(shares) <= 1 + 1e-9 and shares == sorted(shares, reverse=True)
    assert "aten::addmm_" in page and "PackFlow 0.0123, Hugging Face 0.0134" in page
    assert "Hugging Face, way, on CPU" in page and "Hugging Face, way--tuned, on CPU" in page


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
def test_without_a_gpu_it_says_what_it_would_run(tmp_path):
    figures, page, printed = run(tmp_path)
    require_readable(page, printed)
    assert "There is no CUDA device here." in printed
    assert figures["device"] is None
    assert all("seconds" not in way and way["predicted_seconds"] > 0 for way in figures["ways"])
