"""The branch of attention that GPUs take, on a CPU: with a stand-in for torch's varlen_attn that
takes what the kernel takes and masks as its documentation says."""

import inspect

import pytest
import torch
from families import config_of, model_of
from slimpack.torch.pipeline import parts, prefix_attention, variable_length
from torch.nn.functional import scaled_dot_product_attention
from trial import assert_equals_plain_training, assert_model_equals_plain_training


def sees(queries, keys, window_size):
    """Bool, [queries, keys]: the last query is aligned to the last key; a window has so many tokens
    to the left and to the right of a query, -1 = all of them."""
    left, right = window_size
    place_Q1 = torch.arange(keys - queries, keys)[:, None]
    key_K = torch.arange(keys)
    after = key_K > place_Q1 + right if right >= 0 else torch.zeros(queries, keys, dtype=torch.bool)
    before = key_K < place_Q1 - left if left >= 0 else torch.zeros(queries, keys, dtype=torch.bool)
    return ~(after | before)


class StandIn:
    """varlen_attn in fp64, sequence by sequence. calls: the bounds that each call was given."""

    def __init__(self):
        self.calls = []

    def __call__(self, query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, scale=None,
                 window_size=(-1, -1), enable_gqa=False):
        widths = {tensor.shape[-1] for tensor in (query, key, value)}
        assert len(widths) == 1 and max(widths) % 8 == 0 and max(widths) <= 256
        assert key.shape[1] == value.shape[1] and query.shape[1] % key.shape[1] == 0
        assert enable_gqa or query.shape[1] == key.shape[1]
        outputs = []
        for ends, rows, most in ((cu_seq_q, query, max_q), (cu_seq_k, key, max_k)):
            assert ends.dtype == torch.int32 and ends[0] == 0 and ends[-1] == len(rows)
            assert ends.diff().max() <= most
        for (a, b), (c, d) in zip(cu_seq_q.unfold(0, 2, 1).tolist(),
                                  cu_seq_k.unfold(0, 2, 1).tolist(), strict=True):
            outputs.append(scaled_dot_product_attention(
                *(rows[first:end].transpose(0, 1) for rows, first, end in
                  ((query, a, b), (key, c, d), (value, c, d))),
                attn_mask=sees(b - a, d - c, window_size), scale=scale,
                enable_gqa=True).transpose(0, 1))
        self.calls.append((cu_seq_q, cu_seq_k))
        return torch.cat(outputs)


@pytest.fixture(name="kernel")
def fixture_kernel(monkeypatch):
    kernel = StandIn()
    monkeypatch.setattr(variable_length, "varlen_attn", kernel)
    monkeypatch.setattr(variable_length, "_is_on_its_device", lambda tensor: True)
    return kernel


def test_the_stand_in_has_arguments_of_the_kernel():
    stand_in, real = (inspect.signature(of).parameters
                      for of in (StandIn.__call__, torch.nn.attention.varlen.varlen_attn))
    for name in set(stand_in) - {"self"}:
        assert stand_in[name].kind == real[name].kind
        assert stand_in[name].default == real[name].default


# Full attention, windows in all layers and in some, values narrower than queries and wider ones of
# a width that is no multiple of 8.
@pytest.mark.parametrize(("family", "settings"), [
    ("llama", {}), ("mistral", {}), ("olmo3", {}), ("minicpm3", {}), ("deepseek_v3", {}),
    ("deepseek_v3", dict(v_head_dim=20))])
@pytest.mark.parametrize(("kind", "recompute"), [
    ("sliced", "full"), ("symmetric", "elementwise"), ("packed", "nothing")])
def test_one_call_for_all_slices_has_the_gradients_of_plain_training(kernel, family, settings,
                                                                     kind, recompute):
    model = model_of(config_of(family, **settings), 1)
    assert_model_equals_plain_training(model, 2, kind=kind, recompute=recompute, stages=2)
    assert kernel.calls


def test_bounds_are_made_once_for_all_layers_of_a_pass(kernel, monkeypatch):
    made, real = [], parts.Bounds

    def noted(*arguments):
        made.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(parts, "Bounds", noted)
    assert_equals_plain_training("llama", 3, stages=1, replicas=1, kind="sliced",
                                 recompute="full")
    assert len(kernel.calls) > 2 * len(made)  # of four layers; the last needs no forward
    assert len({id(queries) for queries, _ in kernel.calls}) == len(made)


def test_a_window_that_is_one_token_off_is_noticed(kernel, monkeypatch):
    real = variable_length.run
    monkeypatch.setattr(variable_length, "run",
                        lambda *arguments: real(*arguments[:-1], arguments[-1] + 1))
    with pytest.raises(AssertionError):
        assert_equals_plain_training("mistral", 3, kind="sliced")


@pytest.mark.parametrize(("query", "value", "runs"), [(64, 64, True), (192, 128, True),
                                                      (20, 256, True), (264, 64, False)])
def test_the_kernel_takes_heads_up_to_its_widest(kernel, query, value, runs):
    tensors = [torch.zeros(1, 2, 3, width) for width in (query, query, value)]
    assert variable_length.can_run(*tensors) == runs
    assert query == value or not prefix_attention.can_run(*tensors)
