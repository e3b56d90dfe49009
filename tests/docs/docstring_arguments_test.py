"""The Python reference: arguments in docstrings become lists, and other text stays as it is."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from docstring_arguments import with_lists  # noqa: E402

DOCSTRING = """\
Plan: a step of one job.

lengths: of all
    sequences. One each.
ranks, rank: of the group; by default
those of torch.
Raises InvalidInput: always.

Example:

    plan: StepPlan = plan(lengths)"""
SHOWN = """\
Plan: a step of one job.

- `lengths`: of all
    sequences. One each.
- `ranks, rank`: of the group; by default
those of torch.

Raises InvalidInput: always.

Example:

    plan: StepPlan = plan(lengths)"""


def test_arguments_become_a_list():
    assert with_lists(DOCSTRING) == SHOWN
