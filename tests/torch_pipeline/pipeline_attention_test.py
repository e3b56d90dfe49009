"""How slices attend: what is found out about a family, blocks of queries, one call on GPUs,
precision."""

import copy
import random

import pytest
import torch
from families import config_of, model_of
from slimpack.torch.pipeline import Stage, attention, prefix_attention, variable_length
from slimpack.torch.pipeline.comparison import plain_step
from slimpack.torch.pipeline.local import LocalEngine, stages_of
from slimpack.torch.pipeline.packs import Pack
from slimpack.torch.pipeline.parts import blocks_of, parts_of
from slimpack.torch.pipeline.random_plan import random_plan
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.models.llama.modeling_llama import LlamaAttention
from trial import assert_equals_plain_training, assert_model_equals_plain_training


@pytest.mark.parametrize(("family", "windows"), [
    ("llama", [None, None]), ("mistral", [16, 16]), ("gemma2", [16, None]),
    ("llama4_text", [None, None])])
def test_windows_are_found_before_weights_are_loaded(family, windows, tmp_path):
    model_of(config_of(family), 1, torch.float32).save_pretrained(tmp_path)
    stage = Stage.from_pretrained(tmp_path, [0, 2, 4], 0, dtype=torch.float32)
    assert list(stage.division.attention.windows.values()) == windows


def rule(distance):
    """The rule of tokens that see those at such distances before them."""
    return attention.MaskRule(lambda _, __, query, key: distance(query, key) & (key <= query))


@pytest.mark.parametrize("window", [1, 2, 4096, 65535, 65536, 65537, 131072, 1_000_003])
def test_the_window_of_a_rule_is_found_however_wide(window):
    reach = rule(lambda query, key: query - key < window).reach()
    assert (reach.window, reach.known) == (window, True)


@pytest.mark.parametrize(("distance", "known"), [
    (lambda query, key: key >= 0, True),
    (lambda query, key: query // 131072 == key // 131072, False),  # chunks
    (lambda query, key: (query - key < 131072) | (key == 0), False),  # and the first token
    (lambda query, key: (query - key) % 3 == 0, False)])
def test_what_is_no_window_is_seen_whole_or_left_to_the_mask(distance, known):
    reach = rule(distance).reach()
    assert (reach.window, reach.known) == (None, known)


def test_the_window_of_a_model_may_be_wider_than_short_documents():
    config = config_of("mistral", sliding_window=131072, max_position_embeddings=1 << 20)
    stage = Stage.from_model(model_of(config, 1), [0, 2, 4], 0, check=False)
    assert set(stage.division.attention.windows.values()) == {131072}


class ScaledByDefault(LlamaAttention):
    """Leaves the scale of scores to the attention function."""

    def forward(self, hidden_states, position_embeddings=None, past_key_values=None, **_):
        rows = (*hidden_states.shape[:-1], -1, self.head_dim)
        query, key, value = (project(hidden_states).view(rows).transpose(1, 2)
                             for project in (self.q_proj, self.k_proj, self.v_proj))
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        attend = AttentionInterface().get_interface(self.config._attn_implementation,
                                                    sdpa_attention_forward)
        output, weights = attend(self, query, key, value, None)
        return self.o_proj(output.flatten(2)), weights


def test_a_module_need_not_say_how_scores_are_scaled():
    model = model_of(config_of("llama"), 1)
    for layer in model.model.layers:
        layer.self_attn.__class__ = ScaledByDefault
    model.config._attn_implementation = "sdpa"
    assert_model_equals_plain_training(model, 3, kind="sliced", stages=2)


@pytest.mark.parametrize("family", ["opt", "electra"])
@pytest.mark.parametrize("stages", [1, 2])
def test_embeddings_may_have_a_width_of_their_own(family, stages):
    assert_equals_plain_training(family, 3, kind="sliced", stages=stages)


# gemma2 computes the softmax in fp32, backward again.
@pytest.mark.parametrize("family", ["gemma2", "gpt_oss", "deepseek_v3"])
@pytest.mark.parametrize("recompute", ["full", "nothing", "elementwise"])
def test_blocks_of_queries_change_nothing(family, recompute, monkeypatch):
    monkeypatch.setattr(attention, "SCORES_AT_ONCE", 300)  # several blocks, some of one query
    assert_equals_plain_training(family, 5, recompute=recompute, kind="symmetric", stages=2)


@pytest.mark.parametrize("seed", range(20))
def test_blocks_cover_a_slice_and_what_it_sees(seed):
    rng = random.Random(seed)
    begin = rng.randint(0, 50)
    window = rng.choice([None, 1, 7, 30])
    part = parts_of(Pack(((0, 0, 3), (1, begin, begin + rng.randint(1, 40)))), window)[1]
    most = rng.randint(1, 500)
    blocks = blocks_of(part, most, window)
    assert [t for b in blocks for t in range(b.begin, b.end)] == list(range(part.begin, part.end))
    for block in blocks:
        keys = block.end - block.first_key
        assert (block.end - block.begin) * keys <= most or block.end - block.begin == 1
        assert block.query_row - part.query_row == block.begin - part.begin
        assert block.key_row - part.key_row == block.first_key - part.first_key
        seen = 0 if window is None else block.begin - window + 1
        assert block.first_key == max(seen, part.first_key)


def gradient(parameters, names):
    by_name = dict(parameters)
    return torch.cat([by_name[name].grad.double().flatten() for name in names])


@pytest.mark.parametrize("family", ["llama", "mistral", "gpt_oss"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_in_other_precisions_are_as_good_as_plain_ones(family, dtype):
    # Gradients are compared as one vector with those of the same weights in fp64: they are as far
    # off as those of plain training in this precision.
    model = model_of(config_of(family), 1, dtype)
    exact = copy.deepcopy(model).double()
    documents = [torch.arange(n) % 90 + 3 for n in (90, 3, 200, 64)]
    plan = random_plan([len(d) for d in documents], [0, 2, 4], random.Random(1))
    engine = LocalEngine(stages_of(lambda: copy.deepcopy(model), plan.layer_begin))
    engine.step(plan, documents)
    plain_step(model, documents)
    plain_step(exact, documents)
    names = [name for name, _ in exact.named_parameters()]
    reference = gradient(exact.named_parameters(), names)
    ours = gradient((pair for s in engine.stages for pair in s.model.named_parameters()), names)
    plain = gradient(model.named_parameters(), names)
    assert (ours - reference).norm() <= 1.5 * (plain - reference).norm() + 1e-6 * reference.norm()


@pytest.mark.parametrize(("tokens", "prefix", "groups"), [(40, 0, 1), (5, 70, 2), (33, 1, 3)])
def test_prefix_and_own_tokens_apart_equal_attention_with_a_mask(tokens, prefix, groups):
    torch.manual_seed(1)
    query, key, value = (
        torch.randn(1, heads, rows, 8, dtype=torch.float64, requires_grad=True)
        for heads, rows in ((2 * groups, tokens), (2, prefix + tokens), (2, prefix + tokens)))
    sees = torch.arange(prefix + tokens) <= torch.arange(prefix, prefix + tokens)[:, None]
    expected = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=sees, scale=0.3, enable_gqa=True).transpose(1, 2)
    apart = prefix_attention.run(query, key, value, 0.3)
    torch.testing.assert_close(apart, expected, rtol=0, atol=1e-13)
    weight = torch.randn_like(expected)
    gradients = [torch.autograd.grad((output * weight).sum(), (query, key, value))
                 for output in (apart, expected)]
    for got, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the kernel needs a GPU")
@pytest.mark.parametrize("window", [None, 16])
def test_one_call_for_all_slices_equals_slices_by_themselves(window):
    torch.manual_seed(1)
    parts = parts_of(Pack(((0, 0, 40), (1, 37, 90), (2, 5, 6))), window)
    queries = sum(part.end - part.begin for part in parts)
    keys = sum(part.end - part.first_key for part in parts)
    query, key, value = (torch.randn(1, heads, rows, 64, device="cuda", dtype=torch.bfloat16,
                                     requires_grad=True)
                         for heads, rows in ((4, queries), (2, keys), (2, keys)))
    together = variable_length.run(parts, query, key, value, 0.125, window)
    alone = []
    for part in parts:
        positions = torch.arange(part.first_key, part.end, device="cuda")
        sees = positions <= positions[part.begin - part.first_key:, None]
        if window is not None:
            sees &= positions > positions[part.begin - part.first_key:, None] - window
        alone.append(torch.nn.functional.scaled_dot_product_attention(
            *(t.float() for t in part.of(query, key, value)), attn_mask=sees, scale=0.125,
            enable_gqa=True).transpose(1, 2))
    alone = torch.cat(alone, 1)
    torch.testing.assert_close(together.float(), alone, rtol=2e-2, atol=2e-2)
    weight = torch.randn_like(alone)
    gradients = [torch.autograd.grad((output.float() * weight).sum(), (query, key, value))
                 for output in (together, alone)]
    for got, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(got, expected, rtol=5e-2, atol=5e-2)
