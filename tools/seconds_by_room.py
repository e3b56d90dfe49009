#!/usr/bin/env python3
"""Prints where the seconds of a test run went, by room, beside what they may be.

    tools/seconds_by_room.py FOLDER BUDGETS.toml SAMPLE

FOLDER holds what `make test` leaves: a file of seconds for each part (tools/timed.sh), and the results of
ctest and pytest as JUnit files, ctest.xml and pytest.xml. BUDGETS.toml has a table for each sample.
A part's seconds are those on the clock. A room's are the sum over its tests, of which several run at once.
Rooms without a budget are together one line. The exit code is 0 even where a budget is exceeded, for
machines differ.
"""

import collections
import sys
import tomllib
import xml.etree.ElementTree as xml
from pathlib import Path


def seconds_of_parts(folder):
    return {file.name: float(file.read_text()) for file in folder.iterdir() if not file.suffix}


def seconds_of_tests(file, room_of):
    """By room; room_of: of a test case in the JUnit file."""
    seconds = collections.Counter()
    for case in xml.parse(file).iter("testcase"):
        seconds[room_of(case)] += float(case.get("time"))
    return seconds


def room_of_program(case):
    """A shard's program is that of the room: planner of planner.0."""
    return "ctest " + case.get("name").split(".")[0]


def room_of_file(case):
    return "pytest " + "/".join(Path(case.get("file")).parts[:2])


def table(seconds, budgets):
    """Lines, the longest first; rooms without a budget last."""
    rows = [(name, spent, budgets[name]) for name, spent in seconds.items() if name in budgets]
    others = sum(spent for name, spent in seconds.items() if name not in budgets)
    rows = sorted(rows, key=lambda row: -row[1]) + [("others", others, budgets["others"])]
    width = max(len(name) for name, *_ in rows)
    lines = [f"{'':{width}}  seconds  budget"]
    for name, spent, budget in rows:
        over = f"  {spent - budget:.0f} s OVER ITS BUDGET" if spent > budget else ""
        lines.append(f"{name:{width}}  {spent:7.0f}  {budget:6.0f}{over}")
    return lines


def main(folder, budgets, sample):
    folder = Path(folder)
    seconds = (seconds_of_parts(folder) | seconds_of_tests(folder / "ctest.xml", room_of_program)
               | seconds_of_tests(folder / "pytest.xml", room_of_file))
    known = tomllib.loads(Path(budgets).read_text(encoding="utf-8"))
    name = f"sample-{sample}"
    if name in known:
        print("\n".join(table(seconds, known[name])))
    else:
        print(f"{budgets} has no budgets for SAMPLE={sample}, only {', '.join(known)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
