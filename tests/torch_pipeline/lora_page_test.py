"""The program of docs/lora.md runs on two ranks, and PEFT and transformers read what it writes."""

import re
from pathlib import Path

import torch
import training_ranks
from ranks import run
from small_chat_model import write_small_chat_model
from transformers import AutoModelForCausalLM

PAGE = Path(__file__).parents[2] / "docs" / "lora.md"
BLOCK = re.compile(r'^```python title="([^"]*)"\n(.*?)^```', re.MULTILINE | re.DOTALL)


def program_of(tmp_path):
    """{name: code} of the page, on a small model and in a folder of the test."""
    base = tmp_path / "base"
    write_small_chat_model(base, ["The Heron leaves at 13:20."])
    changes = {'"HuggingFaceTB/SmolLM2-135M-Instruct"': f'"{base}"', '"runs/lora"': f'"{tmp_path}/out"'}
    found = dict(BLOCK.findall(PAGE.read_text(encoding="utf-8")))
    for old, new in changes.items():
        assert old in found["lora.py"]
        found["lora.py"] = found["lora.py"].replace(old, new)
    return found


def test_the_program_of_the_page_trains_an_adapter(tmp_path):
    found = program_of(tmp_path)
    (tmp_path / "lora.py").write_text(found["lora.py"])
    run(2, training_ranks.run_example, tmp_path / "lora.py")
    names = {"BASE": tmp_path / "base", "OUTPUT": tmp_path / "out"}
    exec(found["read.py"], names)
    rows = torch.arange(3, 40)[None]
    with torch.no_grad():
        adapted, merged, base = (model(input_ids=rows).logits for model in (
            names["model"], *(AutoModelForCausalLM.from_pretrained(folder) for folder in (
                tmp_path / "out" / "merged", tmp_path / "base"))))
    change = (adapted - base).abs().max()
    # The merged weights are in bf16, of the base model's 8 bits each.
    assert change > 0.01 and (merged - adapted).abs().max() < 0.2 * change
