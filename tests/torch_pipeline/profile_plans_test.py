"""Plans, comparisons and fits from a profile whose times are fixed, so that no noise of the machine
decides."""

import json

import pytest
import slimpack
import torch
from families import config_of, model_of
from slimpack.export.slices import slices
from slimpack.torch.pipeline import LocalEngine, WideAdamW
from slimpack.torch.pipeline.local import stages_of
from slimpack.torch.profiling import profile
from trial import assert_step_equals_plain_training

LENGTHS = [400, 90, 70, 33, 20, 20, 11, 5]
PASS = {"per_pack": 1e5, "per_slice": 1e4, "per_token": 1e4, "per_pair": 10.0,
        "per_prefix_token": 100.0}
RESERVE = 0.09  # of a rank's memory is kept free (docs/fit.md)
HOST = {"host_per_byte": 1e-3, "host_optimizer": {"per_parameter": 2.0, "state_bytes": 0.0}}


def fix_times(costs, factors):
    """Passes of layers of kind k take PASS times factors[k]; what is no layer takes little."""
    parts = [costs, *costs.get("more_kinds", [])]
    layers = costs["autograd"]["layers"]
    for part, layer, factor in zip(parts, layers, factors, strict=True):
        for of in (part, layer["nothing"], layer["elementwise"]):
            for name in ("forward", "backward"):
                of[name] = {term: factor * time for term, time in PASS.items()}
    little = {"per_pack": 1e3, "per_token": 10.0}
    costs |= dict.fromkeys(["embedding_forward", "embedding_backward", "head_backward"], little)
    costs["autograd"]["stage"] = little
    costs["optimizer_per_parameter"] = 1.0


@pytest.fixture(name="measured", scope="module")
def fixture_measured(tmp_path_factory):
    """By family its cost file, made once."""
    folder = tmp_path_factory.mktemp("profile")

    def cost_of(family):
        file = folder / f"{family}.json"
        config = config_of(family, max_position_embeddings=1024)
        return profile(config, file, context=512, seconds=0.2, keep=True), config

    return cost_of


@pytest.fixture(name="job_of")
def fixture_job_of(measured, tmp_path):
    def make(family, factors=(1,), memory=None, host=None, parallel=None, **options):
        cost, config = measured(family)
        costs = json.loads(cost.read_text())
        fix_times(costs, factors)
        costs["memory"] = memory or costs["memory"]
        costs |= host or {}
        fixed = tmp_path / "cost.json"
        fixed.write_text(json.dumps(costs))
        return slimpack.Job(config, {"pp": 2} | (parallel or {}), cost=fixed, dtype="fp32",
                            granularity=16, **options)

    return make


def test_a_comparison_has_the_figures_of_the_planned_step(job_of):
    job = job_of("llama", memory_cap="none")
    comparison, step = job.compare(LENGTHS, planners=["slimpack", "best-fit"]), job.plan(LENGTHS)
    ours = comparison["slimpack"]
    assert ours["makespan_ns"] == round(1e9 * step.makespan)
    # The comparison's peak holds whatever the timing, the step's in the predicted one.
    peak = max(step.peak_activation_bytes)
    assert peak <= ours["peak_bytes"] <= 1.25 * peak
    assert ours["bubble"] == pytest.approx(step.bubble_ratio)
    # A document of 400 of 649 tokens: only slices of it let both ranks work on it at once.
    assert comparison.speedup("best-fit") > 1.02


def parameters_by_stage(config, layer_begin):
    stages = stages_of(lambda: model_of(config, 1, torch.float32), layer_begin)
    return [sum(p.numel() for p in stage.parameters()) for stage in stages]


def test_a_job_fits_to_the_byte(job_of, measured):
    # With no memory at all it says what the step needs that needs least.
    least = job_of("llama", memory=1).fit(LENGTHS)
    assert not least
    needs = [stage["total_bytes"] for stage in least.figures["stages"]]
    step = job_of("llama", memory_cap="none").plan(LENGTHS)
    states = [16 * count for count in
              parameters_by_stage(measured("llama")[1], list(step.layer_begin))]
    for stage, state in zip(least.figures["stages"], states, strict=True):
        # A weight, its gradient and two moments in fp32.
        assert stage["total_bytes"] - stage["activation_bytes"] == state
        assert stage["activation_bytes"] > 0
    enough = int(max(needs) / (1 - RESERVE)) + 2
    assert job_of("llama", memory=enough).fit(LENGTHS)
    assert not job_of("llama", memory=enough - 4).fit(LENGTHS)
    roomy = job_of("llama", memory=1 << 40).fit(LENGTHS)
    assert roomy.figures["makespan_ns"] == round(1e9 * step.makespan)


def test_layers_of_two_kinds_are_balanced_and_trained(job_of):
    # One dense layer that takes three times as long as each of three layers with experts.
    job = job_of("deepseek_v3", factors=(3, 1), memory_cap="none", recompute="nothing")
    step = job.plan(LENGTHS)
    assert list(step.layer_begin) == [0, 1, 4]
    documents = [torch.arange(7 * n, 8 * n) % 90 + 3 for n in LENGTHS]
    model = model_of(config_of("deepseek_v3", max_position_embeddings=1024), 1)
    assert_step_equals_plain_training(model, step, documents)
    # Where each of the others takes three times as long: 1 + 3 beside 3 + 3.
    other = job_of("deepseek_v3", factors=(1, 3), memory_cap="none", recompute="nothing")
    assert list(other.plan(LENGTHS).layer_begin) == [0, 2, 4]


def test_what_is_offloaded_takes_the_predicted_bytes_of_host_memory(job_of, measured):
    # Plans count keys and sums together. A document in two slices has them one after the other: the
    # second slice reads the keys last, and opens the sums. So here is one of more slices.
    lengths = [1000, 33, 20]
    job = job_of("llama", host=HOST, recompute="offload", parallel={"offload_optimizer": True})
    step, fit = job.plan(lengths), job.fit(lengths)
    long = [part for pack in step.replicas[0].backward for part in slices(pack)
            if part.end > 33 and part.begin > 0]
    assert len(long) > 1
    config = measured("llama")[1]
    engine = LocalEngine(stages_of(lambda: model_of(config, 1, torch.float32), step.layer_begin))
    engine.step(step, [torch.arange(n) % 90 + 3 for n in lengths])
    states = []
    for stage in engine.stages:
        optimizer = WideAdamW(stage.parameters(), offload=True)
        optimizer.step()
        states.append(sum(tensor.nbytes for of in optimizer.state.values()
                          for name, tensor in of.items() if name != "step"))
    assert list(engine.peak_bytes) == [0, 0]
    assert min(engine.host_peak_bytes) > 0
    assert all(stage["optimizer_bytes"] == 0 for stage in fit.figures["stages"])
    taken = max(states) + max(engine.host_peak_bytes)
    assert fit.figures["host_bytes"] == pytest.approx(taken, rel=0.01)


def test_a_fit_takes_the_optimizer_to_the_host_where_that_is_enough(job_of):
    least = [job_of("llama", memory=1, host=HOST, parallel=parallel).fit(LENGTHS)
             for parallel in ({}, {"offload_optimizer": True})]
    whole, offloaded = (max(stage["total_bytes"] for stage in fit.figures["stages"])
                        for fit in least)
    memory = int((whole + offloaded) / 2 / (1 - RESERVE))
    fit = job_of("llama", memory=memory, host=HOST).fit(LENGTHS)
    assert not fit
    option = next(option for option in fit.options if option["ranks"] == 2)
    assert option["settings"] == ["parallel.offload_optimizer=true"]
    assert 'Job(..., parallel={"pp": 2, "dp": 1, "tp": 1, "offload_optimizer": True})' in str(fit)
    assert job_of("llama", memory=memory, host=HOST,
                  parallel={"offload_optimizer": True}).fit(LENGTHS)
