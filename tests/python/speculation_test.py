"""Speculative decoding gives what plain decoding gives."""

import json

import pytest
import torch
from generation_test import VOCABULARY, prompts, save_model
from safetensors.torch import load_file, save_file

import slimpack
from slimpack.draft import files
from slimpack.draft.config import HeadConfig
from slimpack.draft.head import DraftHead
from slimpack.generation import Generator, fit_heterospec
from slimpack.generation.command import main


def save_head(folder, seed=0, guesses=100, tokens=None, **config):
    """An EAGLE-3 head of random weights for save_model's model. tokens: that it guesses; None = any."""
    torch.manual_seed(seed)
    head = DraftHead(HeadConfig(**{
        "hidden_size": 48, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 12, "vocab_size": VOCABULARY, "draft_vocab_size": guesses, "target_hidden_size": 48,
        **config}))
    with torch.no_grad():
        for parameter in head.parameters():
            norm = parameter.ndim == 1
            parameter.copy_(norm + 0.3 * torch.randn_like(parameter))
    head.set_vocabulary(torch.randperm(VOCABULARY)[:guesses].sort().values if tokens is None else tokens)
    files.save_head(head, folder)


def save_bins(folder, **fields):
    """Bins of entropies about which random heads are: three levels of up to ln 10 each."""
    (folder / "heterospec.json").write_text(json.dumps({
        "format": "slimpack-heterospec", "version": 1, "depth": 3, "rows": 20, "width": 10,
        "entropy_thresholds": [3, 4, 5, 5.5, 6, 6.3, 6.6], **fields}))


@pytest.mark.parametrize("seed, head, tree", [
    (0, None, {}),
    (1, {}, {}),
    (2, {"norm_before_residual": True, "norm_output": True, "fc_norm": True},
     {"draft_rule": "fixed", "draft_rows": 2}),
    (3, {}, {"draft_rule": "fixed", "draft_depth": 1, "draft_width": 3}),
    (4, {}, {"draft_rule": "fixed", "draft_depth": 4, "draft_width": 20, "draft_rows": 90}),
    (5, None, {"draft_rule": "fixed"}),
    (6, {}, {"draft_rule": "heterospec"}),
    (7, {}, {"joint": True}),
    (8, {"norm_output": True}, {"joint": True, "draft_rule": "fixed", "draft_depth": 4, "draft_width": 3}),
])
def test_the_likeliest_tokens_are_those_of_plain_decoding(tmp_path, seed, head, tree):
    save_model(tmp_path, num_hidden_layers=4)
    if head is not None:
        save_head(tmp_path / "head", seed, **head)
        save_bins(tmp_path / "head")
    plain = Generator(tmp_path, dtype="fp64")
    tree = dict(tree)
    draft = "ngram" if head is None else tmp_path / "head"
    if tree.pop("joint", False):
        draft = ["ngram", draft]
    guessing = Generator(tmp_path, dtype="fp64", draft=draft, **tree)
    for prompt in prompts(5):
        prompt = prompt + prompt[:50]  # what n-grams go by
        expected = plain.generate(prompt, max_new_tokens=40, ignore_eos=True)
        made = guessing.generate(prompt, max_new_tokens=40, ignore_eos=True, prefill_slice=70)
        assert made.tokens == expected.tokens
        assert made.speculation.passes <= 39 and made.speculation.rows >= made.speculation.passes
    # The prompt again, and with another end: the kept part of the sequence is right for the draft,
    # too.
    again = guessing.generate(prompt, max_new_tokens=40, ignore_eos=True)
    assert again.tokens == made.tokens and again.reused_tokens > 0
    if tree.get("draft_rule", "expected") != "expected":  # whose trees depend on time
        assert again.speculation.acceptance == made.speculation.acceptance
    longer = prompt + made.tokens[:20] + [3, 4]
    assert (guessing.generate(longer, max_new_tokens=9, ignore_eos=True).tokens
            == plain.generate(longer, max_new_tokens=9, ignore_eos=True).tokens)


# Trees of up to 64 rows are verified by the operators of few rows, others by libtorch's.
@pytest.mark.parametrize("rows", [20, 90])
@pytest.mark.parametrize("window", [1, 3, 30])
def test_trees_are_verified_within_windows(tmp_path, window, rows):
    save_model(tmp_path, "qwen3", num_hidden_layers=4, use_sliding_window=True, sliding_window=window,
               layer_types=["sliding_attention", "full_attention", "sliding_attention", "sliding_attention"])
    save_head(tmp_path / "head")
    plain = Generator(tmp_path, dtype="fp64")
    guessing = Generator(tmp_path, dtype="fp64", draft=tmp_path / "head", draft_rule="fixed", draft_depth=5,
                         draft_width=20, draft_rows=rows)
    for prompt in prompts(3):
        expected = plain.generate(prompt, max_new_tokens=30, ignore_eos=True)
        assert guessing.generate(prompt, max_new_tokens=30, ignore_eos=True).tokens == expected.tokens


def test_text_that_repeats_itself_takes_few_passes(tmp_path):
    # A model that repeats: its answer settles into a cycle, which n-grams follow.
    save_model(tmp_path, initializer_range=0.1)
    guessing = Generator(tmp_path, dtype="fp64", draft="ngram", draft_rule="fixed", draft_depth=8,
                         draft_rows=9)
    made = guessing.generate([1, 2, 3], max_new_tokens=300, ignore_eos=True)
    assert made.tokens == Generator(tmp_path, dtype="fp64").generate(
        [1, 2, 3], max_new_tokens=300, ignore_eos=True).tokens
    assert made.speculation.passes < 150
    assert made.speculation.acceptance[0] > 0.5


@pytest.mark.cases
@pytest.mark.parametrize("draft", ["ngram", "head", "both"])
def test_drawn_tokens_have_the_distribution_of_plain_decoding(tmp_path, draft):
    save_model(tmp_path, initializer_range=0.2, vocab_size=VOCABULARY)
    save_head(tmp_path / "head", guesses=VOCABULARY)
    name = {"ngram": "ngram", "head": tmp_path / "head", "both": ["ngram", tmp_path / "head"]}[draft]
    plain = Generator(tmp_path, dtype="fp64")
    guessing = Generator(tmp_path, dtype="fp64", draft=name, draft_rule="fixed", draft_depth=3,
                         draft_rows=12)
    settings = {"max_new_tokens": 3, "temperature": 0.6, "top_k": 4, "ignore_eos": True}
    prompt = [5, 6, 7, 5, 6, 7, 5, 6]
    draws = 4000
    counts = {}
    for which, generator in enumerate((plain, guessing)):
        for seed in range(draws):
            tokens = tuple(generator.generate(prompt, seed=seed + which * draws, **settings).tokens)
            counts.setdefault(tokens, [0, 0])[which] += 1
    # Two samples of equal size: Σ (a − b)² / (a + b) is χ² with one degree less than there are cells.
    # Rare answers share a cell.
    cells = [pair for pair in counts.values() if sum(pair) >= 20]
    rare = [sum(column) for column in zip(*(p for p in counts.values() if sum(p) < 20))] or [0, 0]
    if sum(rare):
        cells.append(rare)
    chi_squared = sum((a - b) ** 2 / (a + b) for a, b in cells)
    freedom = len(cells) - 1
    assert freedom >= 5
    assert chi_squared < freedom + 5 * (2 * freedom) ** 0.5


def test_answers_that_reach_the_last_position_are_kept_right_for_the_next_prompt(tmp_path):
    # Near the last position nothing is guessed, but the draft must hear of all tokens.
    save_model(tmp_path, num_hidden_layers=4, max_position_embeddings=120)
    save_head(tmp_path / "head")
    plain = Generator(tmp_path, dtype="fp64")
    for draft in ("ngram", tmp_path / "head"):
        guessing = Generator(tmp_path, dtype="fp64", draft=draft, draft_rule="fixed", draft_depth=4)
        made = guessing.generate([1, 2, 3] * 8, max_new_tokens=200, ignore_eos=True)
        assert made.end == "positions"
        assert made.tokens == plain.generate([1, 2, 3] * 8, max_new_tokens=200, ignore_eos=True).tokens
        prompt = [1, 2, 3] * 8 + made.tokens[:80]
        again = guessing.generate(prompt, max_new_tokens=5, ignore_eos=True)
        assert again.reused_tokens > 60
        assert again.tokens == plain.generate(prompt, max_new_tokens=5, ignore_eos=True).tokens


def test_a_head_is_prepared_for_heterospec_by_its_right_guesses(tmp_path):
    save_model(tmp_path, initializer_range=0.1)
    save_head(tmp_path / "head", guesses=VOCABULARY)
    with pytest.raises(slimpack.InvalidInput, match="records of right guesses do not make 8 bins"):
        fit_heterospec(tmp_path, tmp_path / "head", [[1, 2]], dtype="fp64", max_new_tokens=3)
    assert not (tmp_path / "head" / "heterospec.json").exists()
    with pytest.raises(slimpack.InvalidInput, match="heterospec needs '.*heterospec.json'"):
        Generator(tmp_path, draft=tmp_path / "head", draft_rule="heterospec")


def test_bins_are_fitted_to_right_guesses_and_used(tmp_path):
    # The model says eight of 257 tokens, and the head guesses among these: about one in eight is
    # right.
    save_model(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights["lm_head.weight"][8:] = 0
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    save_head(tmp_path / "head", guesses=8, tokens=torch.arange(8))
    tree = {"draft_depth": 1, "draft_rows": 4, "draft_width": 3}
    asked = list(prompts(12))
    kept = fit_heterospec(tmp_path, tmp_path / "head", asked, dtype="fp64", max_new_tokens=80,
                          ignore_eos=True, **tree)
    assert 20 < kept < 12 * 80
    bins = json.loads((tmp_path / "head" / "heterospec.json").read_text())
    assert [bins[name] for name in ("depth", "rows", "width")] == [1, 4, 3]
    assert len(bins["entropy_thresholds"]) == 7
    assert bins["entropy_thresholds"] == sorted(set(bins["entropy_thresholds"]))
    plain = Generator(tmp_path, dtype="fp64")
    guessing = Generator(tmp_path, dtype="fp64", draft=tmp_path / "head", draft_rule="heterospec")
    for prompt in asked[:3]:
        made = guessing.generate(prompt, max_new_tokens=60, ignore_eos=True)
        assert made.tokens == plain.generate(prompt, max_new_tokens=60, ignore_eos=True).tokens
        assert made.speculation.passes < 59


def test_bins_of_another_tree_are_refused(tmp_path):
    save_model(tmp_path)
    save_head(tmp_path / "head")
    save_bins(tmp_path / "head")
    with pytest.raises(slimpack.InvalidInput, match="was fitted to trees of depth 3, 20 rows and width 10"):
        Generator(tmp_path, draft=tmp_path / "head", draft_rule="heterospec", draft_depth=4)
    save_bins(tmp_path / "head", entropy_thresholds=[1, 2])
    with pytest.raises(slimpack.InvalidInput, match="must be 7 ascending numbers"):
        Generator(tmp_path, draft=tmp_path / "head", draft_rule="heterospec")


def test_unknown_rules_are_refused(tmp_path):
    save_model(tmp_path)
    with pytest.raises(slimpack.InvalidInput, match="draft-rule is 'best'; give one of expected, fixed"):
        Generator(tmp_path, draft="ngram", draft_rule="best")
    with pytest.raises(slimpack.InvalidInput, match="head's entropy, which n-grams lack"):
        fit_heterospec(tmp_path, "ngram", [])
    with pytest.raises(slimpack.InvalidInput, match="draft names the heads 'a' and 'b'; only one can guess"):
        Generator(tmp_path, draft=["a", "ngram", "b"])


def test_the_command_says_how_guessing_went(tmp_path, capsys):
    save_model(tmp_path, initializer_range=0.1)
    command = [str(tmp_path), "abcabcabcabc", "--max-new-tokens", "40", "--dtype", "fp64", "--ignore-eos"]
    assert main(command) == 0
    plain = capsys.readouterr()
    assert main([*command, "--draft", "ngram", "--draft-rule", "fixed", "--draft-depth", "3"]) == 0
    guessed = capsys.readouterr()
    assert guessed.out == plain.out
    line = guessed.err.splitlines()[-1]
    assert "tokens a pass" in line and "right by depth: " in line
    assert main([*command, "--draft-rows", "9"]) == 2
    assert "--draft-rows is 9, but nothing guesses; give --draft, too" in capsys.readouterr().err


def break_config(folder, **values):
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def refusal(folder):
    """Why the model in a folder does not take the head beside it; `draft convert` says the same."""
    with pytest.raises(slimpack.InvalidInput) as error:
        Generator(folder, draft=folder / "head")
    return str(error.value)


@pytest.mark.parametrize("config, message", [
    ({"target_hidden_size": 64}, "is a draft head for a model with hidden_size 64, this one has 48"),
    ({"vocab_size": 32000}, "is a draft head for a model with vocab_size 32000, this one has 257"),
    ({"target_layers": (0, 1, 9)}, "eagle_aux_hidden_state_layer_ids"),
])
def test_heads_of_another_model_are_refused(tmp_path, config, message):
    save_model(tmp_path)
    save_head(tmp_path / "head", tokens=range(100), **config)
    assert message in refusal(tmp_path)


@pytest.mark.parametrize("values, message", [
    ({"vocab_size": 32000}, "t2d and d2t name different tokens"),
    ({"draft_vocab_size": 99}, "d2t has shape [100], config.json says [99]"),
    ({"head_dim": 11}, "head_dim is 11, must be even"),
    ({"eagle_aux_hidden_state_layer_ids": [2, 1, 0]}, "three layers of the target in ascending order"),
    ({"fc_norm": True}, "tensor fc_norm.0.weight is missing"),
    ({"fc_norm": 1}, "fc_norm is 1, must be true or false"),
    ({"hidden_size": None}, "hidden_size is missing"),
    ({"num_hidden_layers": 2}, "num_hidden_layers is 2, must be 1; such heads are not supported"),
    ({"rope_scaling": {"rope_type": "linear", "factor": 2}}, "the RoPE scaling is 'linear', must be none"),
    ({"hidden_act": "gelu"}, "hidden_act is 'gelu', must be 'silu'"),
])
def test_heads_whose_config_does_not_fit_are_refused_as_where_heads_are_converted(tmp_path, values, message):
    save_model(tmp_path)
    save_head(tmp_path / "head")
    break_config(tmp_path / "head", **values)
    said = refusal(tmp_path)
    assert message in said
    with pytest.raises(slimpack.InvalidInput) as error:
        files.load_head(tmp_path / "head")
    assert str(error.value) == said


def change_tensors(folder, change):
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def twice(tensors):
    tensors["d2t"][7] = tensors["d2t"][6] - 1  # the token of guess 6


def other_known(tensors):
    tensors["t2d"] = ~tensors["t2d"]


@pytest.mark.parametrize("change, message", [
    (twice, "d2t does not name 100 different tokens of 257"),
    (other_known, "t2d and d2t name different tokens"),
    (lambda t: t.update({"midlayer.self_attn.q_proj.bias": torch.zeros(48)}),
     "tensor midlayer.self_attn.q_proj.bias is unknown"),
    (lambda t: t.update({"embed_tokens.weight": torch.zeros(258, 48)}),
     "embed_tokens.weight has shape [258, 48], config.json says [257, 48]"),
    (lambda t: t.pop("fc.weight"), "tensor fc.weight is missing"),
])
def test_heads_whose_tensors_do_not_fit_are_refused_as_where_heads_are_converted(tmp_path, change, message):
    save_model(tmp_path)
    save_head(tmp_path / "head")
    change_tensors(tmp_path / "head", change)
    said = refusal(tmp_path)
    assert message in said
    with pytest.raises(slimpack.InvalidInput) as error:
        files.load_head(tmp_path / "head")
    assert str(error.value) == said


def pickled(folder):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def other_names(folder):
    tensors = load_file(folder / "model.safetensors")
    save_file({name.replace("midlayer.", "layers.0."): tensor for name, tensor in tensors.items()},
              folder / "model.safetensors")


def nested_layers(folder):
    break_config(folder, eagle_config={"eagle_aux_hidden_state_layer_ids": [0, 1, 1]})


@pytest.mark.parametrize("publish, sign", [
    (pickled, "it has pytorch_model.bin"), (other_names, "it has layers.0."),
    (nested_layers, "its config.json lacks eagle_aux_hidden_state_layer_ids"),
    (lambda folder: break_config(folder, head_dim=None), "its config.json lacks head_dim"),
])
def test_heads_in_another_published_form_are_to_be_converted_and_then_guess(tmp_path, publish, sign):
    save_model(tmp_path)
    save_head(tmp_path / "head")
    publish(tmp_path / "head")
    said = refusal(tmp_path)
    assert f"is a head in another published form ({sign}" in said
    assert f"slimpack draft convert {tmp_path}/head --out FOLDER" in said
    files.save_head(files.load_head(tmp_path / "head"), tmp_path / "own")
    Generator(tmp_path, draft=tmp_path / "own")


def test_heads_with_tokens_that_the_model_lacks_are_refused(tmp_path):
    save_model(tmp_path)
    save_head(tmp_path / "head")
    change_tensors(tmp_path / "head", lambda tensors: tensors["d2t"].__setitem__(7, 1000))
    assert "d2t does not name 100 different tokens of 257" in refusal(tmp_path)


@pytest.mark.parametrize("tree, message", [
    ({"draft_depth": 0}, "draft-depth is 0, it must be 1 or more"),
    ({"draft_rows": 1}, "draft-rows is 1, it must be 2"),
    ({"draft_width": 0}, "draft-width is 0, it must be 1 or more"),
    ({"draft_depth": 41}, "draft-depth is 41, it must be at most 40"),
    ({"draft_rows": 257}, "draft-rows is 257, it must be at most 256"),
    ({"draft_width": 65}, "draft-width is 65, it must be at most 64"),
    ({"draft_rows": 2**63}, "draft_rows is 9223372036854775808, must be a whole number from"),
    ({"draft_width": 2.5}, "draft_width is 2.5, must be a whole number"),
    ({"draft_depth": "6"}, "draft_depth is '6', must be a whole number"),
])
def test_trees_without_a_guess_or_too_large_are_refused(tmp_path, tree, message):
    save_model(tmp_path)
    with pytest.raises(slimpack.InvalidInput) as error:
        Generator(tmp_path, draft="ngram", **tree)
    assert message in str(error.value)
