"""docs/any-model.md has the table of the installed transformers. `make soak` compares all of it."""

import re
import sys
from pathlib import Path

import pytest
from families import FAMILIES

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import any_model_table as page  # noqa: E402

ROWS = page.PAGE.read_text().partition(page.BEGIN)[2].partition(page.END)[0].splitlines()


def test_every_family_has_one_line():
    assert sorted(re.findall(r"^(?:\| )?`([^`]+)`", "\n".join(ROWS), re.M)) == sorted(page.families())


def test_the_families_that_run_on_processes_are_exact_and_counted():
    exact = set(re.findall(r"^`([^`]+)`", "\n".join(ROWS), re.M))
    assert exact >= FAMILIES.keys()
    assert f"`make soak` also runs {len(FAMILIES)} families " in page.PAGE.read_text()


@pytest.mark.parametrize("family", ["gemma2", "deepseek_v2", "roberta", "qwen3_5_moe", "falcon"])
def test_a_row_says_what_the_check_finds(family):
    assert page.row(family, page.result_of(family)).rstrip() in ROWS


def test_the_table_counts_what_is_exact():
    results = dict.fromkeys(page.families(), "exact")
    results["mamba"], results["zamba"] = "untried", "not exact"
    lines = page.table(results).splitlines()
    assert lines[1] == f"{len(results) - 2} of {len(results)} are exact:"
    assert lines[-3:] == ["| `mamba` | untried |", "| `zamba` | not exact |", ""]
