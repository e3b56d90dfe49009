"""Stages load their own weights from a folder, and write a folder that from_pretrained reads."""

import pytest
import torch
from families import config_of, model_of
from safetensors import safe_open
from slimpack import InvalidInput
from slimpack.torch.pipeline import Stage
from slimpack.torch.pipeline.saving import write_index, write_shard
from transformers import AutoModelForCausalLM

LAYER_BEGIN = [0, 1, 3, 4]
# Fused experts, which are separate in checkpoints; a tied head; latent keys; tied learned
# positions.
TIED = {"gemma3_text": {"model.embed_tokens.weight"}, "gpt2": {"transformer.wte.weight"}}
SAVED = ["mixtral", "gemma3_text", "deepseek_v3", "gpt2", "gpt_oss"]


@pytest.fixture(params=SAVED)
def saved(request, tmp_path):
    """(model, its folder)."""
    tied = {} if request.param != "gpt2" else {"tie_word_embeddings": True}
    model = model_of(config_of(request.param, **tied), 1, torch.float32)
    model.save_pretrained(tmp_path / "model")
    return model, tmp_path / "model"


def stages_from(folder):
    return [Stage.from_pretrained(folder, LAYER_BEGIN, index, dtype=torch.float32)
            for index in range(3)]


def names_in(folder):
    return {name for file in folder.glob("*.safetensors") for name in safe_open(file, "pt").keys()}


def test_stages_load_exactly_their_own_weights(saved):
    model, folder = saved
    expected = dict(model.named_parameters()) | dict(model.named_buffers())
    seen = []
    for stage in stages_from(folder):
        own = dict(stage.model.named_parameters())
        for name, tensor in [*own.items(), *stage.model.named_buffers()]:
            assert torch.equal(tensor, expected[name]), name
        seen += own
    tied = {name for name in seen if seen.count(name) > 1}
    assert tied == TIED.get(model.config.model_type, set())
    assert set(seen) == {name for name, _ in model.named_parameters()}


def test_what_stages_write_is_the_model(saved, tmp_path):
    model, folder = saved
    stages, written = stages_from(folder), tmp_path / "written"
    written.mkdir()
    (written / "tokenizer.json").write_text("{}")
    write_index(stages[0], written, [write_shard(stage, written) for stage in stages])
    assert names_in(written) == names_in(folder)
    again, info = AutoModelForCausalLM.from_pretrained(written, dtype=torch.float32,
                                                       output_loading_info=True)
    assert not any(info.values())
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    assert again.config.architectures == [type(model).__name__]
    assert (written / "tokenizer.json").read_text() == "{}"
    assert not list(written.glob(".*"))


def test_a_folder_without_some_weight_is_refused(tmp_path):
    model = model_of(config_of("llama"), 1, torch.float32)
    state = model.state_dict()
    del state["model.layers.2.mlp.up_proj.weight"]
    model.save_pretrained(tmp_path, state_dict=state)
    Stage.from_pretrained(tmp_path, [0, 2, 4], 0)
    with pytest.raises(InvalidInput, match=r"has no weights for model\.layers\.2\.mlp\.up_proj"):
        Stage.from_pretrained(tmp_path, [0, 2, 4], 1)


class Adapter(torch.nn.Module):
    """Wraps a linear layer as peft does, which renames its weight."""

    def __init__(self, base):
        super().__init__()
        self.base_layer = base
        self.lora_A = torch.nn.Linear(base.in_features, 2, bias=False)

    def forward(self, rows):
        return self.base_layer(rows) + self.lora_A(rows).mean()


@pytest.mark.parametrize("when", ["before the stage is made", "after"])
def test_weights_that_from_pretrained_would_not_find_are_not_written(tmp_path, when):
    model = model_of(config_of("llama"), 1, torch.float32)

    def adapt():
        attention = model.model.layers[1].self_attn
        attention.q_proj = Adapter(attention.q_proj)

    if when != "after":
        adapt()
    stage = Stage.from_model(model, [0, 2, 4], 0, check=False)
    if when == "after":
        adapt()
    with pytest.raises(InvalidInput, match=r"has no weight model\.layers\.1\.self_attn\.q_proj\.base_layer\.weight "
                       r"and 1 others of this stage, .*; save adapters with their own library"):
        write_shard(stage, tmp_path)
    assert not list(tmp_path.iterdir())
