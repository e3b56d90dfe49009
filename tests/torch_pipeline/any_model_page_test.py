"""docs/any-model.md has the table of the installed transformers. `make soak` compares all of it."""

import sys
from pathlib import Path

import pytest
from families import FAMILIES

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import any_model_table as page  # noqa: E402

ROWS = page.rows(page.PAGE.read_text())


def test_every_family_has_one_line():
    assert sorted(row.split("`")[1] for row in ROWS) == sorted(page.families())


def test_the_families_that_run_on_processes_are_exact_and_counted():
    exact = {row.strip("`") for row in ROWS if row.endswith("`")}
    assert exact >= FAMILIES.keys()
    assert f"`make soak` also runs {len(FAMILIES)} families " in " ".join(page.PAGE.read_text().split())


@pytest.mark.parametrize("family", ["gemma2", "deepseek_v2", "roberta", "qwen3_5_moe", "falcon"])
def test_a_row_says_what_the_check_finds(family):
    assert page.row(family, page.result_of(family)) in ROWS


def test_the_table_counts_what_is_exact():
    results = dict.fromkeys(page.families(), "exact")
    results["mamba"], results["zamba"] = "untried", "not exact"
    lines = page.table(results).splitlines()
    assert lines[1] == f"{len(results) - 2} of {len(results)} are exact:"
    assert lines[-3:] == ["`mamba` (untried),", "`zamba` (not exact).", ""]


@pytest.mark.parametrize("result, why", [
    ("it fails on slices: its attention is its own", "its attention is its own"),
    ("no small model can be made to check it (all are too large)", "all are too large"),
    ("it hands on rows of shape (1, 2), stages exchange one row a token",
     "it hands on rows of shape (1, 2), stages exchange one row a token")])
def test_a_row_says_why_a_family_is_refused(result, why):
    assert page.row("family", result) == f"`family` ({why})"
