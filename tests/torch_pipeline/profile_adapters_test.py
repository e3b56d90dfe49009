"""Profiles of models with adapters (LoRA) and of frozen ones: what is trained, what it holds, and
plans from that."""

import json

import peft
import pytest
import slimpack
import torch
from measured_memory import measured_peaks, with_fixed_times
from slimpack import InvalidInput
from slimpack.torch.pipeline.local import stages_of
from slimpack.torch.profiling import profile
from slimpack.torch.profiling.blueprint import Blueprint
from slimpack.torch.profiling.counted_model import counted
from transformers import AutoConfig, AutoModelForCausalLM

LENGTHS = [400, 90, 70, 33, 20, 20, 11, 5]
RANK = 4
# Widths of q and o 64 + 64, of k and v 64 + 32, of gate, up and down 64 + 128.
WIDTHS = 2 * 128 + 2 * 96 + 3 * 192


def llama(**settings):
    return AutoConfig.for_model("llama", **{
        **dict(vocab_size=61, hidden_size=64, num_hidden_layers=4, num_attention_heads=4,
               num_key_value_heads=2, intermediate_size=128, max_position_embeddings=1024), **settings})


def lora(**settings):
    return peft.LoraConfig(**{**dict(r=RANK, target_modules="all-linear", task_type="CAUSAL_LM"),
                              **settings})


def whole(dtype=torch.float32):
    return AutoModelForCausalLM.from_config(llama(), dtype=dtype)


def adapted(dtype=torch.float32, **settings):
    return peft.get_peft_model(whole(dtype), lora(**settings))


def test_adapters_are_trained_and_nothing_else():
    known = counted(Blueprint.of(llama(), lora()))
    (kind,) = known.kinds
    assert (kind.trained, kind.trained_weights) == (RANK * WIDTHS, RANK * WIDTHS)
    assert known.trained == (0, 0, 0)
    assert known.totals() == adapted().get_nb_trainable_parameters()
    # A token is multiplied with the adapters, too: q and o 64 · 64, k and v 64 · 32, then 64 · 128.
    assert kind.weights == 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + RANK * WIDTHS


def test_a_model_with_adapters_says_what_its_configuration_says():
    expected = counted(Blueprint.of(llama(), lora()))
    injected = peft.inject_adapter_in_model(lora(), whole())
    for model in (adapted(), adapted().get_base_model(), injected):
        assert counted(Blueprint.of(model)) == expected
    assert counted(Blueprint.of(whole())).is_whole


def test_layers_without_adapters_are_of_a_kind_of_their_own():
    known = counted(Blueprint.of(adapted(target_modules=["q_proj", "down_proj"],
                                         layers_to_transform=[2, 3])))
    assert known.kind_of_layer == (0, 0, 1, 1)
    assert [kind.trained for kind in known.kinds] == [0, RANK * (64 + 64 + 128 + 64)]


def test_what_is_frozen_by_hand_is_not_trained():
    model = whole()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("layers.3" in name or "lm_head" in name)
    known = counted(Blueprint.of(model))
    assert known.kind_of_layer == (0, 0, 0, 1)
    assert [kind.trained for kind in known.kinds] == [0, known.kinds[0].parameters]
    assert known.trained == (0, 61 * 64, 0)  # but not the norm before the head
    assert known.edges == (61 * 64, 61 * 64 + 64, 0)


def test_a_head_that_is_trained_whole_counts_beside_adapters():
    trained = adapted(modules_to_save=["lm_head"])
    known = counted(Blueprint.of(trained))
    assert known.trained == (0, 61 * 64, 0)
    assert known.totals()[0] == trained.get_nb_trainable_parameters()[0]


@pytest.mark.parametrize(("dtype", "bytes_each"), [
    (torch.float32, (4, 4, 8)), (torch.bfloat16, (4, 4, 8)), (torch.float64, (8, 8, 16))])
def test_adapters_of_a_narrow_model_are_wide_and_have_no_second_copy(dtype, bytes_each):
    assert Blueprint.of(llama(), lora()).trained_bytes(dtype) == bytes_each
    assert Blueprint.of(adapted(dtype)).trained_bytes(dtype) == bytes_each


def test_narrow_weights_that_are_trained_have_a_copy():
    assert Blueprint.of(llama()).trained_bytes(torch.bfloat16) == (2, 4, 12)
    # A head of 61 · 64 parameters in bf16, and adapters in fp32 of four layers.
    head, adapters = 61 * 64, 4 * RANK * WIDTHS
    both = Blueprint.of(adapted(torch.bfloat16, modules_to_save=["lm_head"]))
    assert both.trained_bytes(torch.bfloat16) == pytest.approx(
        ((2 * head + 4 * adapters) / (head + adapters), 4,
         (12 * head + 8 * adapters) / (head + adapters)))


@pytest.fixture(name="cost", scope="module")
def fixture_cost(tmp_path_factory):
    file = tmp_path_factory.mktemp("profile") / "cost.json"
    return profile(llama(), file, context=512, seconds=0.4, adapter=lora())


def job_of(cost, **options):
    return slimpack.Job(llama(), {"pp": 2}, cost=cost, dtype="fp32", granularity=16, **options)


def test_a_profile_says_what_is_trained(cost):
    content = json.loads(cost.read_text())
    assert content["trained"] == {
        "layers": [{"parameters": RANK * WIDTHS, "weights": RANK * WIDTHS}],
        "before": 0, "after": 0, "shared": 0, "weight_bytes": 4}
    assert content["autograd"]["state_bytes"] == {"weights": 4, "gradients": 4, "optimizer": 8}
    assert content["embedding_backward"] == {"per_pack": 0, "per_token": 0}
    job = job_of(cost)
    assert (job.trained_parameters, job.parameters) == adapted().get_nb_trainable_parameters()


def test_states_are_those_of_the_stages(cost):
    job = job_of(cost, memory_cap="none")
    layer_begin = job.plan(LENGTHS).layer_begin
    for figures, stage in zip(job.fit(LENGTHS).figures["stages"],
                              stages_of(lambda: adapted().get_base_model(), layer_begin),
                              strict=True):
        every = list(stage.parameters())
        trained = sum(p.numel() for p in every if p.requires_grad)
        assert figures["weight_bytes"] == sum(p.nbytes for p in every)
        assert (figures["gradient_bytes"], figures["optimizer_bytes"]) == (4 * trained, 8 * trained)


@pytest.fixture(name="deep_cost", scope="module")
def fixture_deep_cost(tmp_path_factory):
    """Bytes of eight layers, with the same times of all passes."""
    folder = tmp_path_factory.mktemp("deep")
    measured = profile(llama(num_hidden_layers=8), folder / "measured.json", context=512, seconds=0.1,
                       adapter=lora())
    return with_fixed_times(measured, folder / "cost.json")


@pytest.mark.parametrize("recompute", ["full", "nothing", "elementwise"])
def test_a_stage_with_adapters_holds_what_was_predicted(deep_cost, recompute):
    # Stages of four layers. A forward pass that keeps its graph counts what one without a graph takes
    # beside it, to which adapters add results of base and adapter: of two layers up to 1.13 times.
    config = llama(num_hidden_layers=8)
    step = slimpack.Job(config, {"pp": 2}, cost=deep_cost, dtype="fp32", granularity=16,
                        memory_cap="none", recompute=recompute, planner="packed").plan(LENGTHS)
    held = measured_peaks(
        lambda: peft.get_peft_model(AutoModelForCausalLM.from_config(config), lora()).get_base_model(),
        step)
    for predicted, measured in zip(step.peak_activation_bytes, held, strict=True):
        assert 0.9 <= predicted / measured <= 1.1


def test_only_a_file_of_the_same_adapters_is_kept(cost, tmp_path):
    before = cost.read_bytes()
    assert profile(adapted(), cost, keep=True) == cost
    for model, adapter in ((llama(), None), (llama(), lora(r=8)), (adapted(r=2), None)):
        with pytest.raises(InvalidInput, match="where another part of the model is trained.*keep=False"):
            profile(model, cost, keep=True, adapter=adapter)
    assert cost.read_bytes() == before
    plain = profile(llama(), tmp_path / "plain.json", context=64, seconds=0.1)
    assert profile(llama(), plain, keep=True) == plain
    with pytest.raises(InvalidInput, match="16,384 of 172,224 parameters"):  # 4 · 4 · 1024 of adapters
        profile(llama(), plain, keep=True, adapter=lora())


@pytest.mark.parametrize(("model", "adapter", "reason"), [
    (llama(), 16, "adapter is of type int, must be a configuration of peft"),
    (llama(), peft.PromptTuningConfig(num_virtual_tokens=4), "PROMPT_TUNING, which is no part of a layer"),
    (llama(), lora(target_modules=["query"]), "does not fit LlamaForCausalLM: .*query"),
    (adapted(), lora(), r"but the model has adapters by itself \(default\); leave adapter out"),
    (adapted(inference_mode=True), None, "no parameter that is trained; load its adapters with is_tr"),
])
def test_adapters_that_no_layer_trains_are_refused(tmp_path, model, adapter, reason):
    with pytest.raises(InvalidInput, match=reason):
        profile(model, tmp_path / "cost.json", adapter=adapter)
    assert not (tmp_path / "cost.json").exists()
