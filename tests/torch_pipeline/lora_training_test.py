"""Training of adapters on processes: their weights are those of PEFT's own, checkpoints hold them alone,
and what is written is what PEFT and transformers read."""

import functools
import json
import re

import lora_ranks
import numpy as np
import pytest
import replicated_ranks
import torch
from families import config_of, model_of
from peft import PeftModel
from ranks import Ranks, outcomes, run
from replicated_ranks import REPLICATION
from safetensors.torch import load_file
from slimpack.labelled import labels_of, tokens_of
from slimpack.torch.pipeline import Checkpoints, Stage
from slimpack.torch.pipeline.comparison import Fp64Casts
from torch.distributed.checkpoint import FileSystemReader
from transformers import AutoModelForCausalLM

BOUND, MAX_NORM = 1e-9, 0.01
# The second one's first stage has no adapter.
CASES = [("llama", "sliced", {}), ("gpt2", "symmetric", {"layers_to_transform": [1, 3]}),
         ("qwen2", "sliced", {"use_dora": True})]


@pytest.fixture(name="ranks", scope="module")
def fixture_ranks():
    with Ranks(4) as ranks:
        yield ranks


@pytest.fixture(name="ran", scope="module")
def fixture_ran(ranks):
    """A function of whether weights are shared out. By rank: what differs from PEFT's own training, by case."""
    return functools.cache(lambda replication: ranks.run(lora_ranks.differences, CASES, 3, MAX_NORM, replication))


@pytest.mark.parametrize("replication", REPLICATION)
def test_replicas_train_adapters_as_peft_does_and_keep_states_of_them_alone(ran, replication):
    for of_rank in ran(replication):
        for found in of_rank:
            assert min(found.norms) > MAX_NORM  # all were clipped
            assert found.of_weights <= BOUND and found.of_norms <= BOUND, found
            assert all(".lora_" in name for name in found.states)
    # By case and rank: 7 modules of 1 and of 3 layers; 4 of layers 1 and 3; 3 with a magnitude.
    counts = [[len(found.states) for found in of_rank] for of_rank in ran(replication)]
    assert counts == [[14, 0, 9], [42, 16, 27]] * 2


@pytest.mark.whole
def test_sharded_replicas_share_frozen_weights_out_also_where_nothing_trains(ran):
    whole, shares = ([[found.kept for found in of_rank] for of_rank in ran(replication)]
                     for replication in ("whole", "sharded"))
    for stage in (0, 1):
        pairs = zip(shares[stage], shares[stage + 2], strict=True)
        assert [a + b for a, b in pairs] == whole[stage]


@pytest.mark.parametrize("replication, dtype, settings", [
    ("whole", torch.bfloat16, {}),
    ("sharded", torch.float64, {"layers_to_transform": [3]}),  # the first stage has nothing to save
], ids=["whole in bf16", "sharded in fp64"])
def test_a_resumed_run_has_the_bits_of_one_that_never_stopped(ranks, tmp_path, replication, dtype, settings):
    never, stopped = tmp_path / "never", tmp_path / "stopped"
    expected = ranks.run(lora_ranks.train, never, 2, 4, replication, dtype, False, settings)
    ranks.run(lora_ranks.train, stopped, 2, 2, replication, dtype, False, settings)
    found = ranks.run(lora_ranks.train, stopped, 2, 4, replication, dtype, True, settings)
    assert [bool(weights) for weights in found] == [not settings, True] * 2
    for weights, again in zip(expected, found, strict=True):
        assert weights.keys() == again.keys() and all(".lora_" in name for name in weights)
        assert all(np.array_equal(weights[name], again[name]) for name in weights)


@pytest.fixture(name="trained", scope="module")
def fixture_trained(ranks, tmp_path_factory):
    """(folder, weights by rank) of two steps of two stages with two replicas that share weights out."""
    folder = tmp_path_factory.mktemp("trained")
    return folder, ranks.run(lora_ranks.train, folder, 2, 2, "sharded")


def test_a_checkpoint_holds_the_adapter_and_its_states_alone(trained):
    stored = FileSystemReader(Checkpoints(trained[0] / "checkpoints").folder_of(2)).read_metadata()
    names = stored.state_dict_metadata.keys()
    weights = {name for name in names if not name.startswith("optimizer/")}
    assert weights == {name for of_rank in trained[1] for name in of_rank}
    assert all(".lora_" in name for name in names) and len(names) == 4 * len(weights)  # step, two moments


def test_a_checkpoint_of_shares_on_two_stages_loads_whole_on_one(trained, tmp_path):
    (tmp_path / "checkpoints").symlink_to(trained[0] / "checkpoints")
    of_one, = run(1, lora_ranks.train, tmp_path, 1, 2, "whole", torch.float64, True)
    for of_rank in trained[1]:
        assert all(np.array_equal(of_one[name], weight) for name, weight in of_rank.items())


@pytest.mark.parametrize("settings, reason", [
    (None, "holds an adapter, this run trains the weights of a whole model; go on with the model of"),
    ({"r": 2}, r"step-00000002 has a weight of shape \[4, 48\] for .*lora_A.default.weight, that of this "
               r"run a weight of shape \[2, 48\]; go on with the model of that run, or train in another"),
    ({"target_modules": ["q_proj"]}, "that of this run no weight"),
])
def test_a_checkpoint_of_another_adapter_is_refused(trained, tmp_path, settings, reason):
    (tmp_path / "checkpoints").symlink_to(trained[0] / "checkpoints")
    assert_refused(tmp_path, settings, reason)


def test_a_checkpoint_of_whole_weights_is_no_checkpoint_of_an_adapter(tmp_path):
    run(2, lora_ranks.train, tmp_path, 2, 1, "whole", torch.float64, False, None)
    assert_refused(tmp_path, {}, "holds the weights of a whole model, this run trains an adapter; ")


def assert_refused(folder, settings, reason):
    for failed, (kind, text, _) in outcomes(2, lora_ranks.train, folder, 2, 3, "whole", torch.float64, True,
                                            settings):
        assert failed and kind == "InvalidInput" and "\n" not in text
        assert re.search(reason, text), text


def test_replicas_that_begin_with_other_adapters_are_refused():
    for failed, (kind, text, _) in outcomes(4, lora_ranks.begin_differently):
        assert failed and kind == "InvalidInput"
        assert "the adapters of ranks 0 and 2 begin with different weights; call torch.manual_seed" in text


SAVED = [("llama", {}, "whole"), ("gpt2", {"use_rslora": True}, "sharded"), ("qwen3_moe", {}, "resharded"),
         ("llama", {"use_dora": True, "layers_to_transform": [2]}, "sharded"), ("phi3", {}, "whole")]


@pytest.fixture(name="saved", scope="module", params=SAVED, ids=lambda case: f"{case[0]}-{case[2]}")
def fixture_saved(request, ranks, tmp_path_factory):
    """(folder of base, adapter and merged, family, (loss, whether base weights stayed) by rank)"""
    family, settings, replication = request.param
    folder = tmp_path_factory.mktemp("saved")
    model_of(config_of(family), 1, torch.bfloat16).save_pretrained(folder / "base")
    return folder, family, ranks.run(lora_ranks.save, folder, family, replication, settings)


def wide(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")


def logits(model):
    with torch.no_grad():
        return model(input_ids=torch.arange(3, 60)[None]).logits


def test_what_is_written_is_what_peft_and_transformers_read(saved):
    folder, _, of_ranks = saved
    assert all(same for _, same in of_ranks)
    config = json.loads((folder / "adapter" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(folder / "base")
    assert (config["peft_type"], config["task_type"]) == ("LORA", "CAUSAL_LM")
    assert not list(folder.glob("*/.*"))
    base = logits(wide(folder / "base"))
    adapted = PeftModel.from_pretrained(wide(folder / "base"), folder / "adapter")
    found, merged = logits(adapted), logits(wide(folder / "merged"))
    assert (found - base).abs().max() > 0.1  # it learned something
    # Merged weights are rounded to bf16, as the base weights are.
    assert (merged - found).abs().max() < 0.05 * (found - base).abs().max()
    names = set(load_file(folder / "adapter" / "adapter_model.safetensors"))
    assert names == set(load_file(saved_by_peft(adapted, folder)))


def saved_by_peft(model, folder):
    model.save_pretrained(folder / "by peft")
    return folder / "by peft" / "adapter_model.safetensors"


def test_stages_go_on_from_what_was_written(saved):
    folder = saved[0]
    state = load_file(folder / "adapter" / "adapter_model.safetensors")
    found = {}
    for index in range(3):
        stage = Stage.from_pretrained(folder / "base", [0, 1, 2, 4], index, check=False,
                                      adapter=folder / "adapter")
        assert all(p.requires_grad for p in stage.stored_parameters().values())
        found |= stage.stored_parameters()
    assert len(found) == len(state)
    for name, parameter in found.items():
        saved_name = "base_model.model." + name.replace(".default", "")
        tensor = state.get(saved_name, state.get(saved_name.removesuffix(".weight")))
        assert torch.equal(parameter, tensor), name


@pytest.mark.parametrize("replication", REPLICATION)
def test_the_reference_is_the_model_without_its_adapter(replication):
    (_, documents), *_ = replicated_ranks.steps_of(lora_ranks.SEED, 2)
    base = model_of(config_of("llama"), lora_ranks.SEED)
    for (before, without, after), (trained, still) in run(4, lora_ranks.reference, replication):
        assert trained == still
        for number, document in enumerate(documents):
            tokens, labels = tokens_of(document), labels_of(document)
            with Fp64Casts(), torch.no_grad():
                log_TV = torch.log_softmax(base(input_ids=tokens[None], use_cache=False).logits[0], -1)
            expected = torch.zeros(len(tokens), dtype=torch.float64)
            for i in range(1, len(tokens)):
                if labels[i] != -100:
                    expected[i] = log_TV[i - 1, tokens[i]]
            np.testing.assert_allclose(without[number], expected, rtol=BOUND, atol=BOUND)
        assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
        assert max(np.abs(a - b).max() for a, b in zip(before, without, strict=True)) > 1e-3
