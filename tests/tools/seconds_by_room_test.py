"""tools/seconds_by_room.py adds up a test run's seconds by room, and says which are too many."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "seconds_by_room.py"
BUDGETS = """
[sample-3]
build = 100
"ctest planner" = 20
"pytest tests/apps" = 5
others = 9
"""
CTEST = """<testsuite><testcase name="planner.0" time="10.5"/><testcase name="planner.1" time="20.5"/>
<testcase name="trace" time="4"/></testsuite>"""
PYTEST = """<testsuites><testsuite><testcase file="tests/apps/fit_test.py" name="a" time="1.5"/>
<testcase file="tests/apps/sweep_test.py" name="b" time="2"/>
<testcase file="tests/packflow/step/a_test.py" name="c" time="3"/></testsuite></testsuites>"""


@pytest.fixture(name="run")
def fixture_run(tmp_path):
    """Calls the tool for a test run: what it prints, in lines."""
    folder = tmp_path / "seconds"
    folder.mkdir()
    (folder / "build").write_text("70.2\n")
    (folder / "ctest.xml").write_text(CTEST)
    (folder / "pytest.xml").write_text(PYTEST)
    (tmp_path / "budgets.toml").write_text(BUDGETS)

    def called(sample):
        done = subprocess.run([sys.executable, TOOL, folder, tmp_path / "budgets.toml", sample],
                              capture_output=True, text=True, check=True)
        return done.stdout.splitlines()
    return called


def test_rooms_stand_beside_their_budgets_the_longest_first(run):
    assert run("3") == [
        "                   seconds  budget",
        "build                   70     100",
        "ctest planner           31      20  11 s OVER ITS BUDGET",  # 10.5 + 20.5
        "pytest tests/apps        4       5",  # 1.5 + 2
        "others                   7       9",  # trace and tests/packflow
    ]


def test_a_sample_without_budgets_is_told(run):
    line, = run("2")
    assert line.endswith("budgets.toml has no budgets for SAMPLE=2, only sample-3")
