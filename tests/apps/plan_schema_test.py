"""docs/plan.schema.json describes every plan that the program writes, and refuses what is none."""

import copy
import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from program import run, settings

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "plan.schema.json").read_text())
VALIDATOR = Draft202012Validator(SCHEMA)


def test_the_schema_is_one():
    Draft202012Validator.check_schema(SCHEMA)


def plan(workspace, tmp_path, *overrides):
    file = tmp_path / "plan.json"
    lengths = tmp_path / "lengths.txt"
    lengths.write_text("900\n300\n40\n500\n7\n")
    done = run("plan", workspace.config("schema"), "--lengths", lengths, "--out", file,
               *settings(overrides))
    assert done.returncode == 0, done.stderr
    return json.loads(file.read_text())


# Where computing is slow, several replicas run the longest sequence together.
SLOW = ["parallel.dp=4", "plan.most_merged=4", "hardware.linear_flops=1e8",
        "hardware.attention_forward_flops=1e8", "hardware.attention_backward_flops=1e8"]


@pytest.mark.parametrize("overrides", [
    [],
    ["parallel.pp=4"],
    ["parallel.pp=2", "plan.planner=packed"],
    ["parallel.pp=4", "plan.backward=split"],
    ["parallel.pp=2", "plan.recompute=auto"],
    ["parallel.pp=2", "parallel.exchange_context=true"],
    SLOW,
    ["parallel.dp=8", "plan.most_merged=1"],  # more replicas than sequences
])
def test_plans_are_what_the_schema_says(workspace, tmp_path, overrides):
    errors = [f"{e.json_path}: {e.message}" for e in VALIDATOR.iter_errors(
        plan(workspace, tmp_path, *overrides))]
    assert not errors


def test_merged_micropacks_are_among_them(workspace, tmp_path):
    merged = plan(workspace, tmp_path, *SLOW)
    assert any(isinstance(pack, dict) for replica in merged["plan"]["replicas"]
               for pack in replica["forward"])


@pytest.mark.parametrize("damage", [
    lambda p: p.pop("speed"),
    lambda p: p.update(version=2),
    lambda p: p["schedules"].__setitem__(0, "0X1"),
    lambda p: p["plan"]["lengths"].append(0),
    lambda p: p["plan"]["recompute"].append("some"),
    lambda p: p["plan"]["replicas"][0]["forward"][0].append([0, 1]),
    lambda p: p["prediction"].update(bubble_ratio=2),
])
def test_what_is_no_plan_is_not(workspace, tmp_path, damage):
    damaged = copy.deepcopy(plan(workspace, tmp_path))
    damage(damaged)
    assert not VALIDATOR.is_valid(damaged)
