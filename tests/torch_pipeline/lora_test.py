"""Gradients of adapters over stages and replicas are those of PEFT's own, one document at a time."""

import random

import pytest
import slimpack.torch
import torch
from adapted import TARGETS, adapted, lora
from families import config_of, model_of
from peft import PeftModel, inject_adapter_in_model
from peft.tuners.lora import LoraLayer
from slimpack.torch.pipeline import Stage, once
from slimpack.torch.pipeline.adapters import adapter_of, base_of
from slimpack.torch.pipeline.comparison import Fp64Casts, largest_difference, plain_step
from slimpack.torch.pipeline.local import LocalEngine, stages_of
from slimpack.torch.pipeline.random_plan import random_plan
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM
from trial import BOUND, assert_step_equals_plain_training, random_case, run_locally

# Beside plain LoRA of all layers.
VARIANTS = {
    "rank-stabilised": dict(use_rslora=True),
    "weight-decomposed": dict(use_dora=True),
    "biased": dict(lora_bias=True),
    "first layers": dict(layers_to_transform=[0, 1]),
    "last layer": dict(layers_to_transform=[3]),
    "some modules": dict(exclude_modules=["k_proj", "up_proj"], init_lora_weights="gaussian"),
    "ranks by name": dict(rank_pattern={"q_proj": 2, r"layers\.2\..*o_proj": 6},
                          alpha_pattern={"k_proj": 11}),
}


def assert_adapters_train(model, seed, **settings):
    """One random step on stages of copies of a PeftModel, against the PeftModel's own."""
    plan, documents = random_case(seed, **settings)
    base = base_of(model)
    engine = assert_step_equals_plain_training(base, plan, documents, plain=model)
    trained = {name for name, p in base.named_parameters() if p.grad is not None}
    found = {name for stage in engine.stages for name, p in stage.model.named_parameters()
             if p.grad is not None}
    assert found == trained and all(".lora_" in name for name in trained)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("family", TARGETS)
def test_adapters_have_the_gradients_of_pefts_own(family, seed):
    case = seed + list(TARGETS).index(family)  # each family meets all of them
    assert_adapters_train(adapted(family, seed), case, stages=(1, 2, 4)[case % 3],
                          replicas=1 + case // 3 % 2)


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_of_adapters_have_the_gradients_of_pefts_own(variant):
    family = "qwen2" if variant == "biased" else "llama"
    recompute = ("full", "nothing", "elementwise")[list(VARIANTS).index(variant) % 3]
    kind = "sliced" if recompute == "full" else "symmetric"
    assert_adapters_train(adapted(family, 1, **VARIANTS[variant]), 7, stages=4, kind=kind,
                          recompute=recompute)


def test_a_model_with_an_injected_adapter_is_the_same_as_a_peft_model():
    base = base_of(adapted("llama", 1))
    injected = model_of(config_of("llama"), 1)
    inject_adapter_in_model(adapter_of(base).config, injected)
    injected.load_state_dict(base.state_dict())
    plan, documents = random_case(3, stages=2)
    engines = [run_locally(model, plan, documents)[0] for model in (base, injected)]
    for one, other in zip(engines[0].stages, engines[1].stages, strict=True):
        for (name, p), (_, q) in zip(one.named_parameters(), other.named_parameters(), strict=True):
            assert p.grad is q.grad is None or torch.equal(p.grad, q.grad), name


@pytest.fixture(name="base", scope="module")
def fixture_base(tmp_path_factory):
    """The folder of a model in fp32."""
    folder = tmp_path_factory.mktemp("base")
    model_of(config_of("llama"), 1, torch.float32).save_pretrained(folder)
    return folder


def test_stages_from_folders_have_the_gradients_of_the_adapter_that_peft_saved(base, tmp_path):
    adapted("llama", 1, torch.float32).save_pretrained(tmp_path)
    whole = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float64, attn_implementation="eager")
    model = PeftModel.from_pretrained(whole.train(), tmp_path, is_trainable=True)
    plan, documents = random_case(5, stages=2)
    engine = LocalEngine([Stage.from_pretrained(base, plan, index, dtype=torch.float64, check=False,
                                                adapter=tmp_path) for index in range(2)])
    with Fp64Casts():
        engine.step(plan, documents)
        plain_step(model, documents)
    assert largest_difference(whole, engine.stages)[0] <= BOUND


def new_weights(base, layer_begin, seed=0, **settings):
    """By name the weights of new adapters of stages in bf16."""
    found = {}
    for index in range(len(layer_begin) - 1):
        stage = Stage.from_pretrained(base, layer_begin, index, dtype=torch.bfloat16, check=False,
                                      adapter=lora("llama", **settings), adapter_seed=seed)
        assert stage.dtype == torch.bfloat16
        found |= stage.stored_parameters()
    return found


def test_an_adapter_of_more_numbers_than_its_model_leaves_the_dtype_of_hidden_states(base):
    of_adapter = sum(p.numel() for p in new_weights(base, [0, 2, 4], r=64).values())
    assert of_adapter > model_of(config_of("llama"), 1).num_parameters()


@pytest.mark.parametrize("initial", [True, False, "gaussian", "orthogonal"])
def test_new_adapters_are_the_same_for_any_stages(base, initial):
    before = torch.get_rng_state()
    whole, divided, other = (new_weights(base, layer_begin, seed, init_lora_weights=initial)
                             for layer_begin, seed in (([0, 4], 0), ([0, 1, 3, 4], 0), ([0, 4], 1)))
    assert torch.equal(torch.get_rng_state(), before)
    assert len(whole) == 4 * 7 * 2 and whole.keys() == divided.keys()
    for name, weight in whole.items():
        assert weight.dtype == torch.float32 and torch.equal(weight, divided[name]), name
        is_zero = "lora_B" in name and initial in (True, "gaussian")
        assert torch.equal(weight, other[name]) == is_zero == (not weight.any()), name
    rows = [weight.flatten()[:9].tolist() for name, weight in whole.items() if "lora_A" in name]
    assert len({tuple(row) for row in rows}) == len(rows)  # no two modules begin alike


def flops(make_model):
    """Counts the matrix products of a step of one document with 50 tokens on two stages, computed once."""
    plan = random_plan([50], [0, 2, 4], random.Random(1), kind="packed", recompute="nothing")
    engine = LocalEngine(stages_of(make_model, plan.layer_begin))
    with FlopCounterMode(display=False) as counter:
        engine.step(plan, [torch.arange(3, 53)])
    return counter.get_total_flops()


def test_frozen_weights_cost_no_weight_gradients():
    tokens, width, inner, keys, vocabulary, rank, layers = 50, 32, 48, 16, 97, 4, 4
    of_layer = 2 * width * width + 2 * width * keys + 3 * width * inner  # q, o; k, v; the MLP
    head = (tokens - 1) * width * vocabulary  # of tokens with a target
    # Nothing before the first layer trains, so its q, k and v need no gradient of their input.
    first = width * width + 2 * width * keys
    saved = 2 * tokens * (layers * of_layer + first) + 2 * head
    # The rows of q and v through A and B, and two gradients of each product.
    added = 2 * tokens * rank * layers * 3 * ((width + width) + (width + keys))
    added -= 2 * tokens * rank * 2 * width  # neither do A of q and v there
    whole = flops(lambda: model_of(config_of("llama"), 1))
    assert flops(lambda: adapted("llama", 1, target_modules=["q_proj", "v_proj"])) == whole - saved + added


def adapters_of(stage):
    return [module for module in stage.modules() if isinstance(module, LoraLayer)]


def drop(stage):
    if stage.place.index == 1:
        for module in adapters_of(stage):
            module.enable_adapters(False)


def forget_the_scale(stage):
    for module in adapters_of(stage):
        module.scaling["default"] = 1.0


def freeze(stage):
    if stage.place.index == 1:
        stage.requires_grad_(False)


@pytest.mark.parametrize("mutation", [drop, forget_the_scale, freeze])
def test_a_runtime_that_forgets_something_of_an_adapter_is_not_exact(monkeypatch, mutation):
    real = Stage.__init__

    def forgetting(stage, *arguments):
        real(stage, *arguments)
        mutation(stage)

    monkeypatch.setattr(Stage, "__init__", forgetting)
    assert slimpack.torch.check(adapted("llama", 1)).gradient_error > 0.01


def test_a_check_tries_the_adapter_of_the_model_in_all_layers():
    report = slimpack.torch.check(adapted("llama", 1, layers_to_transform=[3], r=3))
    assert report.exact and report.adapter.startswith("LoRA of rank 3 in down_proj, gate_proj")
    assert "\n  trains     LoRA of rank 3 in down_proj, gate_proj, " in str(report)
    assert max(map(len, str(report).splitlines())) <= 80
    assert ".lora_" in report.parameter


def test_what_was_exact_once_is_remembered_by_adapter():
    digests = [once._digest(base, adapter_of(base)) for base in (
        base_of(adapted("llama", 1, **settings))
        for settings in ({}, {"r": 8}, {"use_dora": True}, {"target_modules": ["q_proj"]}))]
    assert len({*digests, once._digest(model_of(config_of("llama"), 1))}) == 5
    assert digests[0] == once._digest(*(of(base_of(adapted("llama", 2))) for of in (base_of, adapter_of)))
