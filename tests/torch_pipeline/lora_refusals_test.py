"""Adapters and weights that stages cannot hold are refused by name, before a weight is read."""

import peft
import pytest
import slimpack.torch
import torch
from adapted import adapted, lora
from families import config_of, model_of
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from slimpack import InvalidInput
from slimpack.torch.pipeline import Stage, adapters
from slimpack.torch.pipeline.saving import write_adapter_shard, write_shard
from transformers import AutoConfig


def with_config(config):
    return get_peft_model(model_of(config_of("llama"), 1, torch.float32), config)


def with_two():
    model = adapted("llama", 1)
    model.add_adapter("second", lora("llama"))
    return model


def changed(change):
    model = adapted("llama", 1)
    change(model)
    return model


def quantized(method):
    model = model_of(config_of("llama"), 1)
    model.config.quantization_config = {"quant_method": method}
    return get_peft_model(model, lora("llama"))


def in_bytes():
    model = model_of(config_of("llama"), 1, torch.float32)
    weight = model.model.layers[1].mlp.up_proj.weight
    model.model.layers[1].mlp.up_proj.weight = torch.nn.Parameter(weight.to(torch.int8), requires_grad=False)
    return model


MODELS = {
    "dropout": (lambda: adapted("llama", 1, lora_dropout=0.1),
                r"lora_dropout is 0.1: what is computed again would be dropped differently; set it to 0"),
    "biases": (lambda: adapted("qwen2", 1, bias="lora_only"), r'bias is "lora_only": biases .* "none"'),
    "saved modules": (lambda: adapted("llama", 1, modules_to_save=["lm_head"]),
                      r"modules_to_save is \['lm_head'\]: whole modules would train"),
    "tokens": (lambda: adapted("llama", 1, trainable_token_indices=[3]), r"trainable_token_indices is \[3\]"),
    "experts": (lambda: adapted("qwen3_moe", 1, target_modules="all-linear"), r"target_parameters is .*; name "),
    "replication": (lambda: adapted("llama", 1, layer_replication=[(0, 4), (2, 4)]), r"layer_replication is"),
    "initial values": (lambda: with_config(lora("llama", init_lora_weights="olora")),
                       r'init_lora_weights is "olora": it changes the base model\'s weights'),
    "invocation tokens": (lambda: adapted("llama", 1, alora_invocation_tokens=[3]),
                          r"alora_invocation_tokens is \[3\]: slices do not know"),
    "embedding": (lambda: adapted("llama", 1, target_modules=["embed_tokens", "q_proj"]),
                  r"model.embed_tokens has an adapter and is outside the decoder layers"),
    "head": (lambda: adapted("llama", 1, target_modules=["lm_head"]), r"lm_head has an adapter and is outside"),
    "another kind": (lambda: with_config(peft.IA3Config(task_type="CAUSAL_LM")), r"peft_type is IA3, .* LoraConfig"),
    "ranks that change": (lambda: with_config(peft.AdaLoraConfig(target_modules=["q_proj"], total_step=9)),
                          r"peft_type is ADALORA"),
    "prompts": (lambda: with_config(peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)),
                r"peft_type is PROMPT_TUNING"),
    "prefixes": (lambda: with_config(peft.PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)),
                 r"peft_type is PREFIX_TUNING"),
    "two": (with_two, r"the model has 2 adapters \(default, second\), one of them can train"),
    "disabled": (lambda: changed(lambda model: model.base_model.disable_adapter_layers()),
                 r"the adapter of model.layers.0.self_attn.q_proj is not active"),
    "merged": (lambda: changed(lambda model: model.merge_adapter()), r"q_proj is merged, so it would not train"),
    "frozen": (lambda: changed(lambda model: model.requires_grad_(False)),
               r"no parameter of the adapter trains; load it with .*is_trainable=True"),
    "a norm": (lambda: changed(lambda model: model.base_model.model.model.norm.requires_grad_(True)),
               r"model.norm.weight would train beside the adapter"),
    "4 bits": (lambda: quantized("bitsandbytes"), r"in the format of bitsandbytes, .*; take the model in bf16"),
    "GPTQ": (lambda: quantized("gptq"), r"in the format of gptq"),
    "AWQ": (lambda: quantized("awq"), r"in the format of awq"),
    "torchao": (lambda: quantized("torchao"), r"in the format of torchao"),
    "8 bits": (in_bytes, r"model.layers.1.mlp.up_proj.weight is torch.int8, .*16 bits"),
}


def assert_refused(reason, call, *arguments, **options):
    with pytest.raises(InvalidInput, match=reason) as raised:
        call(*arguments, **options)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", MODELS)
def test_models_whose_adapters_stages_cannot_hold_are_refused(name):
    make, reason = MODELS[name]
    model = make()
    for check in (True, False):
        assert_refused(reason, Stage.from_model, model, [0, 2, 4], 0, check=check)
    assert_refused(reason, slimpack.torch.check, model)


@pytest.fixture(name="folder", scope="module")
def fixture_folder(tmp_path_factory):
    """A folder of a model and of an adapter that PEFT has saved."""
    folder = tmp_path_factory.mktemp("saved")
    model_of(config_of("llama"), 1, torch.float32).save_pretrained(folder / "base")
    adapted("llama", 1, torch.float32, r=2).save_pretrained(folder / "adapter")
    return folder


@pytest.mark.parametrize("adapter, reason", [
    (LoraConfig(lora_dropout=0.1, target_modules=["q_proj"]), "lora_dropout is 0.1"),
    (LoraConfig(target_modules=["lm_head"]), "lm_head has an adapter and is outside"),
    (LoraConfig(target_modules=["c_attn"]), "PEFT cannot make this adapter .*not found"),
    (LoraConfig(r=0, target_modules=["q_proj"]), "PEFT cannot make this adapter .*positive"),
    (peft.VeraConfig(target_modules=["q_proj"]), "peft_type is VERA"),
    ("no/such folder", "PEFT cannot make this adapter"),
])
def test_adapters_that_a_model_cannot_get_are_refused_before_its_weights_are_read(tmp_path, adapter, reason):
    config_of("llama").save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    assert_refused(reason, Stage.from_pretrained, tmp_path, [0, 2, 4], 0, adapter=adapter)
    assert_refused(reason, slimpack.torch.check, tmp_path, adapter=adapter)


def test_a_quantized_model_is_refused_before_its_weights_are_read(tmp_path):
    config = AutoConfig.for_model("llama", num_hidden_layers=4)
    config.quantization_config = {"quant_method": "gptq", "bits": 4}
    config.save_pretrained(tmp_path)
    for options in ({}, {"adapter": lora("llama")}):
        assert_refused("format of gptq", Stage.from_pretrained, tmp_path, [0, 2, 4], 0, **options)
        assert_refused("format of gptq", slimpack.torch.check, tmp_path, **options)


def test_a_folder_of_an_adapter_is_no_model(folder):
    for call in (slimpack.torch.check, lambda model: Stage.from_pretrained(model, [0, 2, 4], 0)):
        assert_refused("holds an adapter; give the folder of its base model", call, folder / "adapter")


A_WEIGHT = "base_model.model.model.layers.3.mlp.up_proj.lora_A.weight"


@pytest.mark.parametrize("change, reason", [
    (lambda state: state.pop(A_WEIGHT), rf"{A_WEIGHT} of shape None, this model's is of shape \(2, 32\); give the"),
    (lambda state: state.update({A_WEIGHT: torch.zeros(2, 16)}), r"of shape \(2, 16\), this model's"),
    (lambda state: state.update({A_WEIGHT.replace("3", "4"): torch.zeros(2, 32)}), r"layers.4.* shape None"),
    (lambda state: state[A_WEIGHT].fill_(float("nan")), rf"{A_WEIGHT} holds values that are not finite"),
])
def test_saved_adapters_of_other_models_are_refused(folder, tmp_path, change, reason):
    state = load_file(folder / "adapter" / "adapter_model.safetensors")
    change(state)
    save_file(state, tmp_path / "adapter_model.safetensors")
    (tmp_path / "adapter_config.json").write_text((folder / "adapter" / "adapter_config.json").read_text())
    # Layer 3 is on the other stage; every stage refuses.
    assert_refused(reason, Stage.from_pretrained, folder / "base", [0, 2, 4], 0, adapter=tmp_path)


def test_an_adapter_and_a_model_do_not_share_a_folder(tmp_path):
    stage = Stage.from_model(adapted("llama", 1), [0, 4], 0, check=False)
    (tmp_path / "config.json").touch()
    assert_refused("holds a model, into which", write_adapter_shard, stage, tmp_path)
    (tmp_path / "adapter_config.json").touch()
    assert_refused("holds an adapter, which from_pretrained would", write_shard, stage, tmp_path)


def test_adapters_need_peft(folder, monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(adapters.importlib, "import_module", absent)
    assert_refused("which is not installed; pip install peft", Stage.from_pretrained, folder / "base",
                   [0, 2, 4], 0, adapter=folder / "adapter")
