"""bench/gpu, as far as it goes without a GPU: its figures, and the page that people read."""

import json
import subprocess

import pytest
import torch
from processes import BUILD

SHAPE = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64,
         "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 256,
         "max_position_embeddings": 256, "hidden_act": "silu", "rms_norm_eps": 1e-5,
         "rope_theta": 10000.0, "tie_word_embeddings": True}


def run(tmp_path, *arguments):
    """The figures, the page and what was printed."""
    out = subprocess.run([BUILD / "bench" / "gpu", "--hugging-face", "", "--json",
                          tmp_path / "new" / "gpu.json", "--page", tmp_path / "gpu.md",
                          *arguments], capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr
    figures = json.loads((tmp_path / "new" / "gpu.json").read_text())
    return figures, (tmp_path / "gpu.md").read_text(), out.stdout


def require_readable(page, printed):
    assert page.startswith("# One training step on ")
    for line in printed.splitlines():
        assert len(line) <= 80 and line in page


def test_a_measured_step_stands_beside_its_prediction(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(SHAPE))
    figures, page, printed = run(tmp_path, "--device", "cpu", "--model", tmp_path / "config.json",
                                 "--context", "256", "--step-tokens", "512", "--repetitions", "1")
    require_readable(page, printed)
    assert figures["tokens"] >= 512
    assert {"packed", "slimpack"} <= {way["way"] for way in figures["ways"]}
    for way in figures["ways"]:
        assert way["seconds"] > 0 and way["predicted_seconds"] > 0
        # Layers, stores and messages are counted byte by byte.
        peak = way["peak_activation_bytes"]
        assert abs(way["predicted_peak_activation_bytes"] / peak - 1) < 0.05
    shares = [operator["share"] for operator in figures["operators"]]
    assert 0 < sum(shares) <= 1 + 1e-9 and shares == sorted(shares, reverse=True)


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
def test_without_a_gpu_it_says_what_it_would_run(tmp_path):
    figures, page, printed = run(tmp_path)
    require_readable(page, printed)
    assert "There is no CUDA device here." in printed
    assert figures["device"] is None
    assert all("seconds" not in way and way["predicted_seconds"] > 0 for way in figures["ways"])
