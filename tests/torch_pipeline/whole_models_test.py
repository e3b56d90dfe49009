"""The language model trains in a model of more than text, and the whole model is saved."""

import pytest
import slimpack.torch
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from slimpack.torch.pipeline import rest
from slimpack.torch.pipeline.adapter_files import join_shares
from slimpack.torch.pipeline.adapters import base_of
from slimpack.torch.pipeline.comparison import Fp64Casts, largest_difference, plain_step
from slimpack.torch.pipeline.local import LocalEngine
from slimpack.torch.pipeline.saving import write_adapter_shard, write_index, write_shard
from slimpack.torch.pipeline.stage import Stage
from transformers import AutoConfig, Gemma3ForConditionalGeneration
from trial import assert_step_equals_plain_training, random_case

TEXT = dict(vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=4,
            num_attention_heads=4, num_key_value_heads=2, head_dim=8, sliding_window=16,
            layer_types=["sliding_attention", "full_attention"] * 2, query_pre_attn_scalar=8)
VISION = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=4, num_attention_heads=2,
              image_size=28, patch_size=14)
SECTIONS = dict(rope_parameters=dict(rope_type="default", rope_theta=1e6, mrope_section=[16, 24, 24]))

# Half of a head's entries turn, in sections.
GLM = dict(vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
           num_key_value_heads=2, max_position_embeddings=512, pad_token_id=0, rope_parameters=dict(
               rope_type="default", rope_theta=1e4, mrope_section=[2, 3, 3], partial_rotary_factor=0.5))


def whole_model(folder):
    """The model that is read from the folder."""
    torch.manual_seed(0)
    config = AutoConfig.for_model("gemma3", text_config=TEXT, vision_config=VISION,
                                  mm_tokens_per_image=1, image_token_id=90)
    if not folder.exists():
        Gemma3ForConditionalGeneration(config).double().save_pretrained(folder)
    return Gemma3ForConditionalGeneration.from_pretrained(folder, dtype=torch.float64,
                                                          attn_implementation="eager").train()


@pytest.mark.parametrize(("family", "text", "architecture"), [
    ("qwen2_5_vl", SECTIONS, None),  # positions by time, height and width, which are equal for text
    ("gemma4", dict(hidden_size_per_layer_input=0), None),
    ("glm4v", GLM, "Glm4vForConditionalGeneration"),
])
def test_the_language_model_is_exact(family, text, architecture):
    config = AutoConfig.for_model(family, text_config=text)
    config.architectures = architecture and [architecture]
    report = slimpack.torch.check(config)
    assert report.exact
    assert report.model.endswith("ForConditionalGeneration")


def test_a_whole_model_names_itself():
    text = dict(num_hidden_layers=4, num_local_experts=4)
    config = AutoConfig.for_model("llama4", text_config=text)
    assert slimpack.torch.check(config).model == "Llama4ForCausalLM"
    config.architectures = ["Llama4ForConditionalGeneration"]
    assert slimpack.torch.check(config).model == "Llama4ForConditionalGeneration"


def test_a_profile_and_a_plan_are_of_the_language_model(tmp_path):
    model = whole_model(tmp_path / "model")
    cost = slimpack.torch.profile(model.config, tmp_path / "cost.json", context=64, seconds=0.1)
    parameters = sum(p.numel() for p in model.model.language_model.layers[0].parameters())
    assert f'"parameters": {parameters}' in cost.read_text()
    for given in (model.config, tmp_path / "model"):
        job = slimpack.Job(given, {"pp": 2}, cost=cost, dtype="fp32")
        plan = job.plan([40, 60, 20])
        assert plan.layer_begin[-1] == 4
        assert Stage.from_pretrained(tmp_path / "model", plan, 0, check=False).place.is_first


def trained(folder, made):
    """(the whole model after plain training, stages after the same step). made: how they are made of
    the model in the folder."""
    plan, documents = random_case(3, stages=2, replicas=1)
    model = whole_model(folder)
    stages = [made(folder, plan, index, check=False) for index in range(2)]
    with Fp64Casts():
        loss, _ = LocalEngine(stages).step(plan, documents)
        assert loss == pytest.approx(plain_step(model, documents), rel=1e-9)
    assert largest_difference(model, stages)[0] <= 1e-9
    return model, stages


def from_folder(folder, plan, index, check):
    return Stage.from_pretrained(folder, plan, index, dtype=torch.float64, check=check)


def from_model(folder, plan, index, check):
    return Stage.from_model(whole_model(folder), plan, index, check=check)


def saved(stages, folder):
    write_index(stages[0], folder, [write_shard(stage, folder) for stage in stages])
    return Gemma3ForConditionalGeneration.from_pretrained(folder, dtype="auto",
                                                          output_loading_info=True)


@pytest.mark.parametrize("made", [from_folder, from_model])
def test_the_saved_folder_is_one_of_the_whole_model(tmp_path, made):
    model, stages = trained(tmp_path / "before", made)
    with torch.no_grad():  # as an optimizer would
        for stage in stages:
            for parameter in stage.parameters():
                parameter -= parameter.grad
        for name, parameter in model.named_parameters():
            if "language_model" in name:
                parameter -= parameter.grad
    found, info = saved(stages, tmp_path / "after")
    assert not info["missing_keys"] and not info["unexpected_keys"]
    expected = dict(model.named_parameters())
    for name, parameter in found.named_parameters():
        torch.testing.assert_close(parameter, expected[name], rtol=1e-9, atol=1e-12)
        if "vision" in name or "projector" in name:
            assert torch.equal(parameter, expected[name])


def test_a_folder_without_the_rest_is_not_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(rest.Rest, "state", lambda self: {})
    _, stages = trained(tmp_path / "before", from_model)
    _, info = saved(stages, tmp_path / "after")
    assert any("vision" in name for name in info["missing_keys"])


def test_adapters_of_the_language_model_train_and_are_what_peft_loads(tmp_path):
    adapter = LoraConfig(r=4, lora_alpha=6, task_type="CAUSAL_LM",
                         target_modules=r".*language_model.*\.(q_proj|v_proj|up_proj)")
    model = get_peft_model(whole_model(tmp_path / "before"), adapter)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    plan, documents = random_case(3, stages=2, replicas=1)
    stages = assert_step_equals_plain_training(base_of(model), plan, documents, plain=model).stages
    shares = [write_adapter_shard(stage, tmp_path / "adapter") for stage in stages]
    join_shares(stages[0], tmp_path / "adapter", shares)
    found = PeftModel.from_pretrained(whole_model(tmp_path / "before"), tmp_path / "adapter")
    expected = {name: p for name, p in model.named_parameters() if ".lora_" in name}
    assert len(expected) == 4 * 3 * 2
    for name, parameter in found.named_parameters():
        if ".lora_" in name:
            assert torch.equal(parameter, expected[name])
