"""Jobs with adapters (LoRA) from hardware figures: what is trained, what it takes, what is refused."""

import json
from pathlib import Path

import peft
import pytest
import slimpack
import torch
from transformers import AutoConfig, AutoModelForCausalLM

MODELS = Path(slimpack.__file__).parent / "models"
RANK = 16
# q and o of Llama 3.1 8B have widths 4096 + 4096, k and v 4096 + 1024, gate, up and down 4096 + 14336.
WIDTHS = 2 * 8192 + 2 * 5120 + 3 * 18432


def job(model="llama-3.1-8b", parallel=None, **options):
    return slimpack.Job(model, parallel or {"pp": 2, "dp": 4}, "h100", **options)


def on_meta(name, rank):
    settings = json.loads((MODELS / f"{name}.json").read_text())
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(
            AutoConfig.for_model(settings.pop("model_type"), **settings))
    return peft.get_peft_model(model, peft.LoraConfig(r=rank, target_modules="all-linear"))


def test_adapters_have_the_parameters_that_follow_from_the_widths():
    adapted = job(adapter_rank=RANK)
    assert adapted.trained_parameters == 32 * RANK * WIDTHS == 41_943_040
    assert adapted.parameters == 8_030_261_248 + 41_943_040
    assert "8.07 B parameters, 0.0419 B of them trained, on 8 ranks" in repr(adapted)
    assert job().trained_parameters == job().parameters == 8_030_261_248


@pytest.mark.parametrize("name", ["llama-3.1-8b", "gemma-2-9b", "qwen2.5-7b", "qwen3-8b"])
def test_adapters_have_the_parameters_that_peft_gives_them(name):
    adapted = job(name, adapter_rank=RANK)
    assert (adapted.trained_parameters, adapted.parameters) == (
        on_meta(name, RANK).get_nb_trainable_parameters())


LENGTHS = [60_000, 30_000, 9_000, 5_000, *[2_000] * 20]


def test_frozen_weights_have_no_gradients_and_no_optimizer_state():
    figures = job(adapter_rank=RANK).fit(LENGTHS).figures
    assert (figures["parameters"], figures["trained_parameters"]) == (8_072_204_288, 41_943_040)
    embedding, layer = 128_256 * 4096, 218_112_000  # products 218,103,808, norms 2 · 4096
    for stage, ends in zip(figures["stages"], (embedding, embedding + 4096), strict=True):
        adapters = stage["layers"] * RANK * WIDTHS
        assert stage["weight_bytes"] == 2 * (stage["layers"] * layer + ends) + 4 * adapters
        assert stage["gradient_bytes"] == 4 * adapters
        assert stage["optimizer_bytes"] == 8 * adapters // 4  # shared out to four replicas


def test_a_model_that_is_too_large_to_train_whole_fits_with_adapters():
    # Weights and gradients of 8 billion parameters are 48 GB, a rank's share of the optimizer 12: with
    # activations of 64K tokens that is too much for 80 GB. Adapters add 0.5 GB to weights of 16.
    alone = {"parallel": {"dp": 8}, "recompute": "auto"}
    documents = [65_536] * 8
    assert not job(**alone).fit(documents)
    assert job(**alone, adapter_rank=RANK).fit(documents)


def test_steps_are_shorter_by_less_than_the_weight_gradients():
    whole, adapted = (job(memory_cap="none", **options).plan(LENGTHS)
                      for options in ({}, {"adapter_rank": RANK}))
    # Weight gradients are a third of the products; attention stays, and adapters add their own.
    assert 0.67 < adapted.makespan / whole.makespan < 0.95


def test_a_sweep_over_ranks_plans_each():
    swept = slimpack.sweep(LENGTHS, "llama-3.1-8b", {"pp": 2, "dp": 4}, "h100", memory_cap="none",
                           over={"adapter_rank": [8, 2048]})
    narrow, wide = swept.figures["points"]
    assert narrow["makespan_ns"] < wide["makespan_ns"]


@pytest.mark.parametrize(("options", "reason"), [
    (dict(adapter_rank=0), "adapter_rank is 0, must be a whole number from 1 to"),
    (dict(adapter_rank=-4), "adapter_rank is -4, must be a whole number from 1 to"),
    (dict(adapter_rank=2.5), "adapter_rank is 2.5, must be a whole number"),
    (dict(adapter_rank=True), "adapter_rank is True, must be a whole number"),
    (dict(adapter_rank=4097), "model.adapter_rank is 4097, must be at most the model's hidden_size, 4096"),
    (dict(adapter_rank=8, model="mixtral-8x7b"), "model.adapter_rank is 8, but the model has experts"),
])
def test_ranks_that_no_adapter_has_are_refused(options, reason):
    with pytest.raises(slimpack.InvalidInput, match=reason):
        job(**options)
