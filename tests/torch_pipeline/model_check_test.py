"""slimpack.torch.check tells models that are exact in slices from those that are not."""

import re

import pytest
import slimpack.torch
import torch
from own_model import GatedModel, RecomputingModel, ShiftedModel, own
from slimpack import InvalidInput
from slimpack.torch.pipeline import attention, cache, stage, token_rows, work
from slimpack.torch.pipeline.checking import EQUAL_SCORES, EXACT, Report
from transformers import AutoConfig

LONGROPE = dict(original_max_position_embeddings=4096, rope_parameters=dict(
    rope_type="longrope", rope_theta=1e4, short_factor=[1 + i / 48 for i in range(48)],
    long_factor=[4 + i / 2 for i in range(48)]))


def check(family, **settings):
    return slimpack.torch.check(AutoConfig.for_model(family, **settings))


def test_a_configuration_a_model_and_a_folder_are_checked_alike(tmp_path):
    config = AutoConfig.for_model("qwen3", num_hidden_layers=3)
    config.save_pretrained(tmp_path)
    reports = [slimpack.torch.check(config), slimpack.torch.check(tmp_path)]
    for report in reports:
        assert report.exact
        assert (report.model, report.layers, report.stages) == ("Qwen3ForCausalLM", 3, 3)
    assert reports[0].gradient_error == reports[1].gradient_error


def test_models_of_a_users_own_are_checked():
    assert slimpack.torch.check(own(GatedModel)).exact
    report = slimpack.torch.check(own(ShiftedModel))  # a slice lacks the token before it,
    assert not report.exact and report.reason == ""  # whatever the tokens are


def test_a_model_that_chooses_between_equal_scores_is_not_exact_for_that_reason():
    # The scores of Doge's first layer are of tokens alone, and its top-k takes some of them.
    report = check("doge", num_hidden_layers=2, hidden_dropout=0.0)
    assert not report.exact and report.reason == EQUAL_SCORES


def test_a_model_that_computes_again_in_backward_is_checked_in_fp64():
    assert slimpack.torch.check(own(RecomputingModel)).exact


@pytest.mark.parametrize("forgotten", ["add", "added_to"])
def test_a_runtime_that_forgets_prefix_gradients_is_not_exact(monkeypatch, forgotten):
    instead = {"add": lambda *_: None, "added_to": lambda self, key, sequence, begin, rows: rows}
    monkeypatch.setattr(token_rows.TokenRows, forgotten, instead[forgotten])
    assert check("llama").gradient_error > 0.01


@pytest.mark.whole
def test_a_gradient_that_is_no_number_is_not_exact(monkeypatch):
    monkeypatch.setattr(token_rows.TokenRows, "added_to",
                        lambda self, key, sequence, begin, rows: rows * float("nan"))
    assert not check("llama").exact


@pytest.mark.whole
def test_a_runtime_that_forgets_windows_is_not_exact(monkeypatch):
    monkeypatch.setattr(attention.MaskRule, "sees",
                        lambda self, queries, keys: keys[None] <= queries[:, None])
    assert check("mistral").gradient_error > 0.01


@pytest.mark.whole
def test_a_runtime_that_takes_row_numbers_for_positions_is_not_exact(monkeypatch):
    assert check("llama4_text").exact
    monkeypatch.setattr(cache.SliceCache, "get_seq_length", lambda *_, **__: 0)
    assert check("llama4_text").gradient_error > 0.01


@pytest.mark.whole
def test_a_runtime_whose_ropes_do_not_know_documents_is_not_exact(monkeypatch):
    assert check("phi3", **LONGROPE).exact
    monkeypatch.setattr(stage, "by_document", lambda *_: None)
    assert check("phi3", **LONGROPE).gradient_error > 0.01


@pytest.mark.parametrize(("family", "settings"), [
    ("gptj", dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),  # attention of its own
    ("deepseek_v32", {}),  # an indexer chooses keys
    ("minimax_m3_vl_text", dict(num_hidden_layers=4, layer_types=[
        "full_attention", *["minimax_m3_sparse"] * 3])),  # one chooses blocks of them
])
def test_attention_that_computes_with_the_mask_is_exact(monkeypatch, family, settings):
    assert check(family, **settings).exact
    monkeypatch.setattr(work.SliceWork, "of_slice", mask_from_token_0)
    assert not check(family, **settings).exact


def mask_from_token_0(self, number, real=work.SliceWork.of_slice):
    """The work of a slice whose mask is that of a slice at the document's begin."""
    alone = real(self, number)

    def mask_of(rule, like):
        part, = alone.pack.slices
        positions = torch.arange(part.end)
        return rule.tensor(positions[:part.end - part.begin], positions, like.dtype)

    alone.mask_of = mask_of
    return alone


@pytest.mark.parametrize(("family", "settings"), [
    # Positions are counted from the padding token on,
    ("roberta", dict(is_decoder=True, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)),
    ("bart", dict(dropout=0.0)),  # or by the decoder itself, in a call's rows.
])
def test_positions_are_places_in_documents(monkeypatch, family, settings):
    assert check(family, **settings).exact
    monkeypatch.setattr(stage, "by_place", lambda *_: None)
    monkeypatch.setattr(stage, "padding_before_places", lambda _: None)
    assert not check(family, **settings).exact


def test_selections_are_handed_from_layer_to_layer():
    # Layers 1 and 3 take the selection of the layer before, so stages begin at 0 and 2.
    settings = dict(num_hidden_layers=4, indexer_types=["full", "shared"] * 2)
    report = check("glm_moe_dsa", **settings)
    assert report.exact and report.stages == 2


@pytest.mark.whole
def test_an_indexer_that_forgets_the_keys_of_prefixes_is_not_exact(monkeypatch):
    real = work.SliceWork.update_indexer

    def forgetful(self, key_1TD, layer):
        found = real(self, key_1TD, layer).clone()
        found[:, :found.shape[1] - key_1TD.shape[1]] = 0
        return found

    monkeypatch.setattr(work.SliceWork, "update_indexer", forgetful)
    assert check("deepseek_v32").gradient_error > 0.01


@pytest.mark.parametrize(("family", "settings", "reason"), [
    ("gpt2", {}, r"resid_pdrop is 0.1, must be 0: .*; set config.resid_pdrop = 0.0"),
    ("minimax", {}, r"the states of minimax: its linear attention goes on from a state token by token"),
    ("rwkv", {}, r"the states of rwkv: its states are lists of its own"),
    ("zamba2", {}, r"zamba2 cannot be divided into stages: its layers read the token embedding"),
    ("zaya", {}, r"zaya cannot be divided into stages: its routers get a tensor from the layer before"),
    ("deepseek_v4", {}, r"layer 0 of deepseek_v4 is \"heavily_compressed_attention\""),
    ("llama", dict(rope_parameters=dict(rope_type="dynamic", rope_theta=1e4, factor=2.0)),
     r"rope_type is \"dynamic\""),
    ("gemma3n_text", {}, r"num_kv_shared_layers is 15"),
    ("gemma4_text", {}, r"every layer of Gemma4ForCausalLM depends on model.embed_tokens.weight"),
    ("bloom", dict(hidden_dropout=0.0, attention_dropout=0.0),
     r"its attention does not go through transformers' interface"),
    ("bert", dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
     r"its tokens see later ones"),
    ("xmod", dict(is_decoder=True, default_language="en_XX", hidden_dropout_prob=0.0,
                  attention_probs_dropout_prob=0.0),
     r"outside the layers its code reads output of one, which another stage may have"),
    ("vit", {}, r"model_type is vit, which is no causal language model"),
    ("blt", {}, r"no small model of BltForCausalLM can be made"),
])
def test_models_that_cannot_be_exact_are_refused_with_the_reason(family, settings, reason):
    with pytest.raises(InvalidInput, match=reason) as raised:
        check(family, **settings)
    assert "\n" not in str(raised.value)
    assert "; " in str(raised.value)  # a remedy


def test_a_module_without_transformers_interfaces_is_refused():
    with pytest.raises(InvalidInput, match=r"Linear is no transformers.PreTrainedModel"):
        slimpack.torch.check(torch.nn.Linear(2, 2))


def report(**changes):
    fields = dict(model="LlamaForCausalLM", by_cache=True, with_states=0, layers=4, stages=3, lengths=(1, 40),
                  gradient_error=2.4e-15, parameter="model.layers.0.mlp.up_proj.weight",
                  loss_error=0.0, seconds=1.26)
    return Report(**fields | changes)


def test_a_report_says_what_was_tried_and_found():
    assert str(report()) == """\
LlamaForCausalLM: exact
  tried      4 layers on 3 stages, 2 documents of 1 to 40 tokens
  keys from  the cache
  gradients  differ by at most 2e-15 of their largest entry
             in model.layers.0.mlp.up_proj.weight
  loss       differs by 0e+00
  seconds    1.3"""


def test_a_report_says_how_many_layers_hand_on_a_state():
    lines = str(report(with_states=3)).splitlines()
    assert lines[2:4] == ["  keys from  the cache", "  states     of 3 layers"]
    lines = str(report(with_states=4, by_cache=False)).splitlines()
    assert lines[2].startswith("  states     of 4 layers")


@pytest.mark.parametrize("changes", [dict(gradient_error=2 * EXACT), dict(loss_error=2 * EXACT)])
def test_a_report_is_exact_where_gradients_and_loss_are(changes):
    assert report().exact
    assert not report(**changes).exact
    assert "NOT EXACT" in str(report(**changes))


def test_a_report_says_why_a_model_is_not_exact():
    assert str(report(gradient_error=1.0, reason=EQUAL_SCORES)).splitlines()[-3:-1] == [
        "  because    of tokens with equal scores, a slice may choose others than the",
        "             whole document does; where no token comes twice, it is exact"]


def test_a_report_fits_a_terminal():
    long = report(parameter="model.language_model." + "layers.31." * 9 + "self_attn.q_proj.weight")
    assert max(map(len, str(long).splitlines())) <= 80
    assert re.search(r"in ….*self_attn.q_proj.weight$", str(long), re.M)
