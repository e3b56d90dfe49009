"""A stage checks a family when it is met for the first time, and never again."""

import copy
import importlib

import pytest
import torch
from families import config_of, model_of
from own_model import ShiftedModel, own
from slimpack import InvalidInput
from slimpack.torch.pipeline import Stage, once
from transformers import LlamaForCausalLM


@pytest.fixture
def checked(tmp_path, monkeypatch):
    """The models that were checked, with nothing remembered yet."""
    models, tried = [], once.tried

    def noted(model, adapter):
        models.append(model)
        return tried(model, adapter)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(once, "tried", noted)
    return models


def stage(config):
    return Stage.from_model(model_of(config, 1), [0, 2, 4], 0)


def test_a_family_is_checked_once_for_each_configuration(checked, tmp_path):
    config = config_of("llama")
    stage(config), stage(config)
    assert len(checked) == 1
    stage(config_of("llama", rms_norm_eps=1e-3))
    assert len(checked) == 2
    reports = [file.read_text() for file in (tmp_path / "slimpack" / "exact").iterdir()]
    assert len(reports) == 2
    assert all(text.startswith("LlamaForCausalLM: exact\n") for text in reports)


def test_a_family_is_checked_again_when_a_file_that_it_imports_changes(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_ops.py").write_text("def scaled(x):\n    return 2 * x\n")
    (tmp_path / "own_layers.py").write_text("import own_ops\n\n\ndef gate(x):\n"
                                            "    return own_ops.scaled(x)\n")
    (tmp_path / "own_family.py").write_text(
        "from own_layers import gate\nfrom transformers import LlamaForCausalLM\n\n\n"
        "class OwnModel(LlamaForCausalLM):\n    pass\n")
    model = importlib.import_module("own_family").OwnModel(config_of("llama"))
    digests = [once._digest(model)]
    for name in ("own_family", "own_layers", "own_ops"):
        file = tmp_path / f"{name}.py"
        file.write_text(file.read_text() + "# changed\n")
        digests.append(once._digest(model))
    assert len(set(digests)) == 4
    assert once._digest(model) == digests[-1]


def test_a_model_that_is_not_exact_is_refused_every_time(checked):
    for _ in range(2):
        with pytest.raises(InvalidInput, match=r"ShiftedModel is not exact.*check=False"):
            Stage.from_model(own(ShiftedModel), [0, 1, 2], 0)
    assert len(checked) == 2


def test_the_check_can_be_skipped(checked, tmp_path):
    Stage.from_model(own(ShiftedModel), [0, 1, 2], 0, check=False)
    model_of(config_of("llama"), 1).save_pretrained(tmp_path)
    Stage.from_pretrained(tmp_path, [0, 2, 4], 0, check=False)
    assert not checked


def test_a_check_leaves_the_model_as_it_was(checked):
    model = own(ShiftedModel)
    before = copy.deepcopy(model.config.to_dict()), model.config._attn_implementation
    with pytest.raises(InvalidInput):
        once.require_exact(model)
    assert (model.config.to_dict(), model.config._attn_implementation) == before


def test_a_plain_model_is_made_from_the_configuration_of_a_stage():
    config = config_of("llama")
    Stage.from_model(LlamaForCausalLM(config), [0, 2, 4], 0, check=False)
    ids_1T = torch.arange(5)[None]
    assert LlamaForCausalLM(config)(ids_1T).logits.shape[1] == 5


def test_a_home_that_cannot_be_written_is_no_error(checked, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    stage(config_of("llama")), stage(config_of("llama"))
    assert len(checked) == 2
