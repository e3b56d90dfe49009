"""Profiles that several ranks measure together."""

import json

import profile_ranks
import pytest
import slimpack
from ranks import outcomes, run


@pytest.mark.parametrize("world", [2, 3])  # the third one only hears of it
def test_all_ranks_know_what_a_message_takes(world):
    figures = run(world, profile_ranks.transfer)
    latency, per_byte = figures[0]
    assert set(figures) == {(latency, per_byte)}
    assert 1e-6 < latency < 1  # a system call takes longer, the loopback device is faster
    assert 1e-12 < per_byte < 1e-6  # between a terabyte and a megabyte a second


@pytest.fixture(name="cost", scope="module")
def fixture_cost(tmp_path_factory):
    file = tmp_path_factory.mktemp("profile") / "cost.json"
    texts = run(2, profile_ranks.write_profile, file)
    assert texts == [file.read_text()] * 2  # no rank goes on before it is there
    return file


def test_a_profile_by_two_ranks_has_measured_transfers(cost):
    figures = json.loads(cost.read_text())
    assert 1e3 < figures["transfer_latency"] < 1e9 and figures["transfer_latency"] != 5e4
    assert 1e-3 < figures["transfer_per_byte"] < 1e3 and figures["transfer_per_byte"] != 0.1


def test_steps_are_planned_with_what_messages_take(cost):
    def nanoseconds(**changes):
        changed = cost.with_name("changed.json")
        changed.write_text(json.dumps({**json.loads(cost.read_text()), **changes}))
        job = slimpack.Job(profile_ranks.LLAMA, {"pp": 2}, cost=changed, dtype="fp32")
        return round(job.plan([1]).makespan * 1e9)

    # A token passes from the first stage to the second, its gradient, 16 fp32 numbers, back.
    none = nanoseconds(transfer_latency=0, transfer_per_byte=0)
    assert nanoseconds(transfer_latency=1e6, transfer_per_byte=0) - none == 2e6
    assert nanoseconds(transfer_latency=0, transfer_per_byte=1e3) - none == 2 * 16 * 4 * 1e3


@pytest.mark.parametrize(("seen_by", "measured"), [([1], True), ([0], False), ([0, 1], False)])
def test_all_ranks_measure_where_the_first_one_finds_no_file(tmp_path, seen_by, measured):
    found = run(2, profile_ranks.profile_once, tmp_path / "cost.json", seen_by)
    assert found == [(measured, 2)] * 2


def test_all_ranks_raise_what_keeps_the_first_from_writing(tmp_path):
    found = outcomes(2, profile_ranks.write_profile, tmp_path / "nowhere" / "cost.json")
    for failed, (kind, message, _) in found:
        assert failed and kind == "FileNotFoundError" and "nowhere" in message
