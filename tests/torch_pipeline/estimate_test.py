"""Costs of a machine that is not at hand: bytes are counted as they are on a CPU, times are those of
the machine's file."""

import json

import pytest
import slimpack
import torch
from families import config_of
from slimpack import InvalidInput
from slimpack.torch.profiling import estimate
from slimpack.torch.profiling.blueprint import Blueprint
from slimpack.torch.profiling.clock import Clock
from slimpack.torch.profiling.counted_model import counted
from slimpack.torch.profiling.estimate import _at
from slimpack.torch.profiling.live_bytes import CountedBytes
from slimpack.torch.profiling.lone_layer import LoneLayer, Point

CONTEXT = 1024
CPU = torch.device("cpu")


@pytest.fixture(name="made", scope="module")
def fixture_made(tmp_path_factory):
    config = config_of("llama", max_position_embeddings=CONTEXT)
    file = tmp_path_factory.mktemp("estimate") / "cost.json"
    return estimate(config, file, "h100", context=CONTEXT), config


@pytest.mark.parametrize("point", [Point(64, 0, 1), Point(256, 0, 2), Point(128, 512, 1),
                                   Point(64, 960, 1)])
def test_no_micropack_has_more_bytes_than_the_file_says(made, point):
    file, config = made
    layer = json.loads(file.read_text())["autograd"]["layers"][0]
    kind = counted(Blueprint.of(config)).kinds[0]
    lone = LoneLayer(Blueprint.of(config), 1, torch.bfloat16, CPU, Clock(CPU))
    with CountedBytes() as meter:
        found = lone.bytes(point, meter)
    graph = _at(layer["nothing"]["bytes"], point, 0)
    assert graph == pytest.approx(found.nothing_bytes, rel=0.05)
    for name, peak, own in (("nothing", found.nothing_backward_peak, found.nothing_bytes),
                            ("elementwise", found.elementwise_backward_peak,
                             found.elementwise_bytes)):
        said = sum(_at(layer[name][form], point, 0) for form in ("bytes", "backward_peak"))
        assert 0.95 * (own + peak) <= said
    assert 0.95 * found.forward_peak <= _at(layer["forward_peak"], point, 0)
    assert layer["kv_bytes"] == lone.kept(kind).key_values


def test_times_are_those_of_the_machine(made):
    file, config = made
    costs = json.loads(file.read_text())
    job = slimpack.Job(config, hardware="h100", memory_cap="none")
    figures = json.loads(job.plan([1]).to_json())["cost"]
    assert costs["forward"] == figures["forward"]
    assert costs["backward"]["per_pair"] == pytest.approx(
        figures["forward"]["per_pair"] + figures["backward"]["per_pair"])
    assert costs["memory"] == 80e9 and costs["host_per_byte"] == pytest.approx(1e9 / 50e9)


def test_a_job_is_planned_with_and_without_host_memory(made):
    file, config = made
    step, offloaded = (slimpack.Job(config, {"pp": 2}, cost=file, context=CONTEXT, granularity=16,
                                    recompute=recompute).plan([1000, 20, 10])
                       for recompute in ("full", "offload"))
    assert set(offloaded.recompute) == {"offload"}
    assert max(offloaded.peak_activation_bytes) < max(step.peak_activation_bytes)
    assert offloaded.makespan > step.makespan


@pytest.mark.parametrize("family", ["qwen3_5_text", "nemotron_h"])
def test_models_with_states_are_estimated(family, tmp_path):
    """Nemotron-H also has layers of experts alone, whose products fail without memory."""
    config = config_of(family)
    file = estimate(config, tmp_path / "cost.json", "h100", context=128)
    costs = json.loads(file.read_text())["autograd"]
    states = [layer["state"]["products"] for layer in costs["layers"] if "state" in layer]
    assert states and all(products > 0 for products in states)
    plan = slimpack.Job(config, {"pp": 2}, cost=file, context=128, granularity=16).plan([120, 20, 10])
    assert plan.makespan > 0 and plan.layer_begin[-1] == 4


def test_a_configuration_with_infinite_numbers_is_read():
    config = config_of("mamba2")  # its time_step_limit ends nowhere
    assert slimpack.Job(config, {"pp": 2}, hardware="h100").plan([100, 20]).makespan > 0


def test_models_whose_layers_slimpack_does_not_know_are_refused(tmp_path):
    with pytest.raises(InvalidInput):
        estimate(config_of("gpt_neox"), tmp_path / "cost.json", "h100")
    assert not list(tmp_path.iterdir())
