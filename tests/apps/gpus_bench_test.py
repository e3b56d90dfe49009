"""bench/gpus, as far as it goes without GPUs: two processes over Gloo."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from processes import BUILD

PROGRAM = Path(__file__).parents[2] / "bench" / "gpus" / "run.py"


@pytest.fixture
def text(tmp_path):
    """Documents of 100 to 2,000 bytes."""
    folder = tmp_path / "text"
    folder.mkdir()
    for number in range(12):
        (folder / f"{number}.py").write_text(f"x = {number}\n" * (13 + 22 * number))
    return folder


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
def test_on_gloo_it_checks_losses_and_measures_links_steps_and_fsdp2(text, tmp_path):
    out = subprocess.run([sys.executable, PROGRAM, "--build", BUILD, "--grid", "1,2,1", "--check-steps",
                          "2", "--text", text, "--json", tmp_path / "new" / "gpus.json", "--page",
                          tmp_path / "gpus.md"], capture_output=True, text=True, timeout=300, check=False)
    assert out.returncode == 0, out.stdout + out.stderr
    found = json.loads((tmp_path / "new" / "gpus.json").read_text())
    assert found["failed"] == []
    (check,) = found["checks"]
    assert check["holds"] and len(check["losses"]) == 2
    assert {"to the next rank", "all_reduce", "reduce_scatter", "all_gather"} == {
        link["operation"] for link in found["links"]}
    assert [way["way"] for way in found["ways"]] == [
        "slimpack, pp 1 × dp 2 × tp 1", "packed, pp 1 × dp 2 × tp 1", "FSDP2, packed"]
    assert len({way["tokens"] for way in found["ways"]}) == 1  # the same documents
    page = (tmp_path / "gpus.md").read_text()
    assert page.strip() == out.stdout.strip()
    assert "There is no CUDA device here" in page and "| FSDP2, packed |" in page
