"""Gradients of adapters over stages and replicas are those of PEFT's own, one document at a time."""

import pytest
from adapted import TARGETS, adapted
from slimpack.torch.pipeline.adapters import base_of
from slimpack.torch.pipeline.comparison import Fp64Casts, largest_difference, plain_step
from trial import BOUND, random_case, run_locally

# Beside plain LoRA of all layers.
VARIANTS = {
    "rank-stabilised": dict(use_rslora=True),
    "weight-decomposed": dict(use_dora=True),
    "biased": dict(lora_bias=True),
    "first layers": dict(layers_to_transform=[0, 1]),
    "last layer": dict(layers_to_transform=[3]),
    "ranks by name": dict(rank_pattern={"q_proj": 2, r"layers\.2\..*o_proj": 6},
                          alpha_pattern={"k_proj": 11}),
}


def assert_adapters_train(model, seed, **settings):
    """One random step on stages of copies of a PeftModel, against the PeftModel's own."""
    plan, documents = random_case(seed, **settings)
    base = base_of(model)
    engine, (loss, _) = run_locally(base, plan, documents)
    with Fp64Casts():
        expected = plain_step(model, documents)
    assert abs(loss - expected) <= BOUND * expected
    difference, name = largest_difference(base, engine.stages)
    assert difference <= BOUND, f"{name}: {difference:.2e}"
    trained = {name for name, p in base.named_parameters() if p.grad is not None}
    found = {name for stage in engine.stages for name, p in stage.model.named_parameters()
             if p.grad is not None}
    assert found == trained and all(".lora_" in name for name in trained)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("family", TARGETS)
def test_adapters_have_the_gradients_of_pefts_own(family, seed):
    case = seed + list(TARGETS).index(family)  # each family meets all of them
    assert_adapters_train(adapted(family, seed), case, stages=(1, 2, 4)[case % 3],
                          replicas=1 + case // 3 % 2)


@pytest.mark.cases
@pytest.mark.parametrize("recompute", ["full", "nothing", "elementwise"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_of_adapters_have_the_gradients_of_pefts_own(variant, recompute):
    biased = "qwen2" if variant == "biased" else "llama"
    kind = "sliced" if recompute == "full" else "symmetric"
    assert_adapters_train(adapted(biased, 1, **VARIANTS[variant]), 7, stages=4, kind=kind,
                          recompute=recompute)
