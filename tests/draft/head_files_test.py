"""Heads as files: round trips, both forms, and heads that are refused in one line."""

import json
import pickle
from types import SimpleNamespace

import pytest
import torch
from heads import KINDS, VOCABULARY, tiny_batch, tiny_head, tiny_target
from safetensors.torch import load_file, save_file
from slimpack import InvalidInput
from slimpack.draft import load_head, save_head
from slimpack.draft.config import default_target_layers
from slimpack.draft.unrolled import unrolled

TARGET = SimpleNamespace(hidden_size=8, vocabulary=11, layers=4)


def logits_of(head):
    target = tiny_target(head)
    _, _, batch = tiny_batch(head, target, [6])
    return torch.cat([step.logits_RV for step in unrolled(head, batch, target.embedding_VE)])


def written(folder, tensors, values, pickled=False):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(values))
    if pickled:
        torch.save(tensors, folder / "pytorch_model.bin")
    else:
        save_file(tensors, folder / "model.safetensors")
    return folder


@pytest.fixture(name="parts")
def fixture_parts(tmp_path):
    """(tensors, config.json) of a head, to change."""
    save_head(tiny_head(), tmp_path / "head")
    return (load_file(tmp_path / "head" / "model.safetensors"),
            json.loads((tmp_path / "head" / "config.json").read_text()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_that_was_saved_loads_to_the_same_bits(kind, tmp_path):
    head = tiny_head(**KINDS[kind])
    save_head(head, tmp_path / "head")
    loaded = load_head(tmp_path / "head", dtype=torch.float64)
    assert loaded.config == head.config
    assert loaded.state_dict().keys() == head.state_dict().keys()
    assert all(torch.equal(tensor, loaded.state_dict()[name])
               for name, tensor in head.state_dict().items())
    assert [n for n, p in loaded.named_parameters() if not p.requires_grad] == [
        n for n, p in head.named_parameters() if not p.requires_grad]
    save_head(loaded, tmp_path / "again")
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "head" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    assert len(list((tmp_path / "head").iterdir())) == 2  # nothing is left over


@pytest.mark.parametrize("shift", [0, 8, 24, 56])
def test_a_head_gives_the_same_bits_wherever_its_tensors_lie_in_the_file(parts, tmp_path, shift):
    tensors, values = parts
    folder = written(tmp_path / "shifted", tensors, values)
    save_file(tensors, folder / "model.safetensors", {"format": "pt", "shift": "x" * shift})
    head = load_head(folder, TARGET, torch.float64)
    assert all(tensor.data_ptr() % 64 == 0 for tensor in head.state_dict().values())
    assert torch.equal(logits_of(head), logits_of(tiny_head()))


def test_files_have_the_published_names(parts):
    tensors, values = parts
    layer = ["hidden_norm", "input_layernorm", "post_attention_layernorm", "self_attn.q_proj",
             "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj",
             "mlp.down_proj"]
    assert set(tensors) == {"fc.weight", "norm.weight", "lm_head.weight", "d2t", "t2d",
                            *(f"midlayer.{name}.weight" for name in layer)}
    assert tensors["d2t"].dtype == torch.int64 and tensors["t2d"].dtype == torch.bool
    # d2t: token minus place; 0 is 0th, 2 is 1st, 3 is 2nd, 5 is 3rd, 9 is 4th, 10 is 5th
    assert tensors["d2t"].tolist() == [0, 1, 1, 2, 5, 5]
    assert tensors["t2d"].nonzero().flatten().tolist() == VOCABULARY
    assert tensors["midlayer.self_attn.q_proj.weight"].shape == (16, 16)  # heads · size, 2 · hidden
    assert values["architectures"] == ["LlamaForCausalLMEagle3"] and values["draft_vocab_size"] == 6
    assert values["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [1, 2, 3]


def test_speculators_names_and_config_load_to_the_same_head(parts, tmp_path):
    tensors, values = parts
    renamed = {name.replace("midlayer.", "layers.0."): tensor for name, tensor in tensors.items()}
    outer = ("draft_vocab_size", "eagle_aux_hidden_state_layer_ids")
    layer = {name: value for name, value in values.items()
             if name not in (*outer, "eagle_config", "architectures", "rope_theta")}
    layer["rope_parameters"] = {"rope_type": "default", "rope_theta": values["rope_theta"]}
    folder = written(tmp_path / "other", renamed, {
        "speculators_model_type": "eagle3", "architectures": ["Eagle3Speculator"],
        "norm_before_residual": True, "transformer_layer_config": layer,
        **{name: values[name] for name in outer}})
    head = load_head(folder, TARGET, torch.float64)
    assert head.config.norm_before_residual and head.config.target_layers == (1, 2, 3)
    assert torch.equal(logits_of(head), logits_of(tiny_head(norm_before_residual=True)))


def test_official_heads_are_pickled_in_fp16_and_say_little(parts, tmp_path):
    """No rope_theta, no layers, no head_dim, no t2d; names may begin with "model."."""
    tensors, values = parts
    halves = {f"model.{name}" if name.startswith("fc") else name:
              tensor.half() if tensor.is_floating_point() else tensor
              for name, tensor in tensors.items() if name != "t2d"}
    for name in ("rope_theta", "eagle_config", "eagle_aux_hidden_state_layer_ids"):
        del values[name]
    head = load_head(written(tmp_path / "bin", halves, values, pickled=True), TARGET, torch.float64)
    assert head.config.rope_theta == 10000 and head.config.target_layers is None
    same = tiny_head(rope_theta=10000.0)
    for parameter in same.parameters():
        parameter.data = parameter.data.half().double()
    assert torch.equal(logits_of(head), logits_of(same))


def test_a_head_of_the_whole_vocabulary_needs_no_map(parts, tmp_path):
    tensors, values = parts
    tensors["lm_head.weight"] = torch.zeros(11, 8)
    del tensors["d2t"], tensors["t2d"]
    head = load_head(written(tmp_path / "whole", tensors, {**values, "draft_vocab_size": 11}))
    assert head.target_ids.tolist() == list(range(11)) and head.t2d.all()


@pytest.mark.parametrize("layers, wanted", [
    (32, (2, 16, 29)), (30, (2, 15, 27)), (7, (2, 3, 4)),  # 2, n / 2, n - 3
    (4, (1, 2, 3)), (2, (1, 1, 1)), (1, (0, 0, 0))])
def test_layers_of_the_target(layers, wanted):
    assert default_target_layers(layers) == wanted


@pytest.mark.parametrize("change, words", [
    ({"hidden_size": None}, ["hidden_size is missing"]),
    ({"hidden_size": 0}, ["hidden_size is 0", "from 1 to"]),
    ({"num_key_value_heads": 3}, ["num_attention_heads is 4", "multiple", "3"]),
    ({"head_dim": 3}, ["head_dim is 3", "even"]),
    ({"rms_norm_eps": "small"}, ["rms_norm_eps is 'small'"]),
    ({"draft_vocab_size": 12}, ["draft_vocab_size is 12", "vocab_size, which is 11"]),
    ({"num_hidden_layers": 2}, ["num_hidden_layers is 2", "must be 1"]),
    ({"hidden_act": "gelu"}, ["hidden_act is 'gelu'", "silu"]),
    ({"attention_bias": True}, ["attention_bias is True"]),
    ({"norm_before_fc": True}, ["norm_before_fc is True"]),
    ({"rope_scaling": {"rope_type": "llama3", "factor": 8}}, ["RoPE scaling is 'llama3'"]),
    ({"eagle_config": {"use_aux_hidden_state": False}}, ["EAGLE-2"]),
    ({"speculators_model_type": "medusa"}, ["'medusa'", "'eagle3'"]),
    ({"eagle_aux_hidden_state_layer_ids": [1, 2]}, ["[1, 2]", "three layers"]),
    ({"intermediate_size": 13}, ["mlp.down_proj.weight has shape [8, 12]", "[8, 13]"]),
])
def test_a_config_that_is_refused(parts, tmp_path, change, words):
    tensors, values = parts
    values = {name: value for name, value in {**values, **change}.items() if value is not None}
    refused(written(tmp_path / "bad", tensors, values), *words)


def without(name):
    return lambda tensors: tensors.pop(name)


def with_tensor(name, tensor):
    return lambda tensors: tensors.update({name: tensor})


@pytest.mark.parametrize("change, words", [
    (without("fc.weight"), ["tensor fc.weight is missing"]),
    (without("d2t"), ["d2t is missing", "6 of 11"]),
    (with_tensor("midlayer.self_attn.q_proj.bias", torch.zeros(16)),
     ["midlayer.self_attn.q_proj.bias is unknown"]),
    (with_tensor("lm_head.weight", torch.zeros(5, 8)), ["lm_head.weight has shape [5, 8]", "[6, 8]"]),
    (with_tensor("d2t", torch.zeros(5, dtype=torch.int64)), ["d2t has shape [5]", "[6]"]),
    (with_tensor("d2t", torch.full((6,), 6)), ["d2t does not name 6 different tokens of 11"]),
    (with_tensor("t2d", torch.zeros(11, dtype=torch.bool)), ["t2d and d2t name different tokens"]),
])
def test_tensors_that_are_refused(parts, tmp_path, change, words):
    tensors, values = parts
    change(tensors)
    refused(written(tmp_path / "bad", tensors, values), *words)


@pytest.mark.parametrize("target, words", [
    (dict(hidden_size=9), ["hidden size of 8", "target's is 9"]),
    (dict(vocabulary=12), ["vocabulary of 11", "target's is 12"]),
    (dict(layers=3), ["input of layer 3", "3 layers"]),
])
def test_a_head_of_another_target_is_refused(parts, tmp_path, target, words):
    refused(written(tmp_path / "head", *parts), *words,
            target=SimpleNamespace(**{**vars(TARGET), **target}))


def test_a_head_of_its_own_width_needs_its_own_embeddings(tmp_path):
    head = tiny_head(target_hidden_size=6)
    save_head(head, tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["embed_tokens.weight"]
    save_file(tensors, tmp_path / "model.safetensors")
    refused(tmp_path, "no embed_tokens", target=SimpleNamespace(hidden_size=6, vocabulary=11, layers=4))


class Unsafe:
    def __reduce__(self):
        return print, ("ran",)


@pytest.mark.parametrize("files, words", [
    ({}, ["config.json", "No such file"]),
    ({"config.json": b"{"}, ["config.json", "draft head"]),
    ({"config.json": b"[]"}, ["no JSON object"]),
    ({"config.json": None}, ["neither model.safetensors nor pytorch_model.bin"]),
    ({"config.json": None, "model.safetensors": b"\x00" * 20}, ["cannot read", "model.safetensors"]),
    ({"config.json": None, "pytorch_model.bin": b"PK\x03\x04"}, ["cannot read", "pytorch_model.bin"]),
    ({"config.json": None, "pytorch_model.bin": pickle.dumps(Unsafe())}, ["cannot read"]),
])
def test_files_that_are_refused(parts, tmp_path, files, words, capsys):
    folder = tmp_path / "bad"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(json.dumps(parts[1]).encode() if data is None else data)
    refused(folder, *words)
    assert "ran" not in capsys.readouterr().out


def refused(folder, *words, target=None):
    with pytest.raises(InvalidInput) as error:
        load_head(folder, target)
    line = str(error.value)
    assert "\n" not in line and str(folder) in line
    for word in words:
        assert word in line
