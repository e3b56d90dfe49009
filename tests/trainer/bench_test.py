"""bench/trainer.py runs beside every mode of SFTTrainer, on documents of some dozens of tokens."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from processes import BUILD, environment

BENCH = Path(__file__).parents[2] / "bench" / "trainer.py"


@pytest.mark.whole
def test_all_modes_train_the_same_documents(tmp_path):
    done = subprocess.run(
        [sys.executable, BENCH, "--documents", "9", "--of-a-step", "4", "--longest", "40", "--mean", "3", "--hidden", "64",
         "--turns", "1", "--json", tmp_path / "figures.json"],
        capture_output=True, text=True, check=False, env={**environment(), "SLIMPACK_BUILD": str(BUILD)})
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["documents"] == 9 and figures["longest"] <= 40
    assert set(figures["modes"]) == {"slimpack", "packing", "padding_free", "padding_free, rebalanced"}
    for found in figures["modes"].values():
        assert len(found["seconds_a_token"]) == 1 and found["seconds_a_token"][0] > 0
    table = done.stdout.splitlines()
    assert len(table) == 7 and max(map(len, table)) <= 80
