"""The branch of attention that GPUs take, on a CPU: with a stand-in for torch's flash attention that
takes what the kernel takes and masks as its documentation says."""

import sys
from types import SimpleNamespace

import pytest
import torch
from families import config_of, model_of
from slimpack.torch.pipeline import parts, prefix_attention, selective, variable_length
from torch.nn.attention import _fa4
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
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


# Arguments and results of the kernel's operators, by the last release of torch that had them so.
_FORWARD = ("aten::_flash_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? cum_seq_q, "
            "Tensor? cum_seq_k, SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, "
            "bool return_debug_mask, *, float? scale=None, SymInt? window_size_left=None, "
            "SymInt? window_size_right=None, Tensor? seqused_k=None, Tensor? alibi_slopes=None{}) -> "
            "(Tensor output, Tensor softmax_logsumexp, Tensor rng_state, Tensor unused, "
            "Tensor debug_attn_mask)")
FORWARD = {"2.11": _FORWARD.format(""),
           "2.13": _FORWARD.format(", Tensor? block_table=None, int? num_splits=None")}
BACKWARD = ("aten::_flash_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, "
            "Tensor out, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, "
            "SymInt max_k, float dropout_p, bool is_causal, Tensor rng_state, Tensor unused, *, "
            "float? scale=None, SymInt? window_size_left=None, SymInt? window_size_right=None) -> "
            "(Tensor, Tensor, Tensor)")


def bound(schema, arguments, options):
    """Arguments by name, where an operator with the schema takes them."""
    known = torch._C.parse_schema(schema).arguments
    positional = [argument.name for argument in known if not argument.kwarg_only]
    assert len(arguments) == len(positional)
    assert set(options) <= {argument.name for argument in known if argument.kwarg_only}
    return {**dict(zip(positional, arguments, strict=True)), **options}


class StandIn:
    """Flash attention of a release in fp64, sequence by sequence, and its backward pass. calls: the
    bounds that each call of forward was given."""

    def __init__(self, release):
        self.calls, self._forward = [], FORWARD[release]

    def forward(self, *arguments, **options):
        call = bound(self._forward, arguments, options)
        output_THD = self._attend(call)
        self.calls.append((call["cum_seq_q"], call["cum_seq_k"]))
        of_dropout = torch.zeros(2, dtype=torch.uint64), torch.zeros(0)
        return output_THD, torch.zeros(output_THD.shape[1::-1]), *of_dropout, torch.zeros(0)

    def backward(self, *arguments, **options):
        call = bound(BACKWARD, arguments, options)
        inputs = [call[name].detach().requires_grad_() for name in ("query", "key", "value")]
        with torch.enable_grad():
            output_THD = self._attend({**call, **dict(zip(("query", "key", "value"), inputs,
                                                          strict=True))})
        assert torch.equal(output_THD, call["out"]) and call["grad_out"].stride(-1) == 1
        assert call["rng_state"].dtype == torch.uint64 and call["unused"].numel() == 0
        return torch.autograd.grad(output_THD, inputs, call["grad_out"])

    @staticmethod
    def _attend(call):
        query, key, value = (call[name] for name in ("query", "key", "value"))
        cu_seq_q, cu_seq_k = call["cum_seq_q"], call["cum_seq_k"]
        is_causal = call["is_causal"]
        assert call["dropout_p"] == 0 and is_causal == ("window_size_left" not in call)
        window_size = ((-1, 0) if is_causal
                       else (call["window_size_left"], call["window_size_right"]))
        widths = {tensor.shape[-1] for tensor in (query, key, value)}
        assert len(widths) == 1 and max(widths) % 8 == 0 and max(widths) <= 256
        assert key.shape[1] == value.shape[1] and query.shape[1] % key.shape[1] == 0
        outputs = []
        for ends, rows, most in ((cu_seq_q, query, call["max_q"]), (cu_seq_k, key, call["max_k"])):
            assert ends.dtype == torch.int32 and ends[0] == 0 and ends[-1] == len(rows)
            assert ends.diff().max() <= most
        for (a, b), (c, d) in zip(cu_seq_q.unfold(0, 2, 1).tolist(),
                                  cu_seq_k.unfold(0, 2, 1).tolist(), strict=True):
            outputs.append(scaled_dot_product_attention(
                *(rows[first:end].transpose(0, 1) for rows, first, end in
                  ((query, a, b), (key, c, d), (value, c, d))),
                attn_mask=sees(b - a, d - c, window_size), scale=call["scale"],
                enable_gqa=True).transpose(0, 1))
        return torch.cat(outputs)


@pytest.fixture(name="kernel", params=FORWARD)
def fixture_kernel(monkeypatch, request):
    kernel = StandIn(request.param)
    monkeypatch.setattr(variable_length, "_forward", kernel.forward)
    monkeypatch.setattr(variable_length, "_backward", kernel.backward)
    monkeypatch.setattr(variable_length, "_is_on_its_device", lambda tensor: True)
    return kernel


def test_the_stand_in_takes_what_this_torch_takes():
    operators = torch.ops.aten._flash_attention_forward, torch.ops.aten._flash_attention_backward
    release = "2.13" if torch.__version__ >= "2.13" else "2.11"
    for operator, schema in zip(operators, (FORWARD[release], BACKWARD), strict=True):
        assert torch._C.parse_schema(schema) == operator.default._schema


class Names(TorchDispatchMode):
    """The names of the operators that run."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func._schema.name)
        return func(*args, **(kwargs or {}))


def test_the_kernel_itself_takes_the_calls_and_a_selective_checkpoint_keeps_its_results():
    # Tensors without memory: what no GPU is needed for.
    inputs = [torch.empty(1, heads, tokens, 16, dtype=torch.bfloat16, device="meta",
                          requires_grad=True) for heads, tokens in ((4, 7), (2, 9), (2, 9))]
    slices = parts.Parts([parts.Part(0, 0, 4, 0, 0, 0), parts.Part(1, 2, 5, 4, 4, 0)])
    with Names() as names:
        output_1THD = checkpoint(lambda *tensors: variable_length.run(slices, *tensors, None, 3),
                                 *inputs, use_reentrant=False, context_fn=selective._contexts)
        output_1THD.backward(torch.empty_like(output_1THD))
    assert output_1THD.shape == (1, 7, 4, 16)
    assert [tensor.grad.shape for tensor in inputs] == [tensor.shape for tensor in inputs]
    assert names.seen.count("aten::_flash_attention_forward") == 1
    assert names.seen.count("aten::_flash_attention_backward") == 1


class FlashAttention4:
    """A stand-in for the module that torch calls once FA4 is activated: its functions, in fp64."""

    @staticmethod
    def forward(query, key, value, *, softmax_scale, causal, window_size_left, window_size_right,
                cu_seqlens_q, cu_seqlens_k, return_lse, **unused):
        assert return_lse and causal == (window_size_left is window_size_right is None)
        windows = {} if causal else {"window_size_left": window_size_left,
                                     "window_size_right": window_size_right}
        output_THD = StandIn._attend({
            "query": query, "key": key, "value": value, "cum_seq_q": cu_seqlens_q,
            "cum_seq_k": cu_seqlens_k, "max_q": len(query), "max_k": len(key), "dropout_p": 0,
            "is_causal": causal, "scale": softmax_scale, **windows})
        return output_THD, torch.zeros(output_THD.shape[1::-1])

    @staticmethod
    def backward(query, key, value, out, dout, lse, *, deterministic=False,
                 window_size_left=None, window_size_right=None, **options):
        inputs = [tensor.detach().requires_grad_() for tensor in (query, key, value)]
        with torch.enable_grad():
            output_THD, _ = FlashAttention4.forward(
                *inputs, return_lse=True, window_size_left=window_size_left,
                window_size_right=window_size_right, **options)
        assert torch.equal(output_THD, out) and lse.shape == output_THD.shape[1::-1]
        return torch.autograd.grad(output_THD, inputs, dout)


@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_an_activated_implementation_gets_what_it_takes(kernel, monkeypatch, family):
    # torch registers these functions for GPUs instead of its own operators.
    if family == "mistral" and torch.__version__ < "2.13":
        pytest.skip("its FlashAttention-4 takes no windows")
    module = SimpleNamespace(_flash_attn_fwd=FlashAttention4.forward,
                             _flash_attn_bwd=FlashAttention4.backward)
    monkeypatch.setitem(sys.modules, "stand_in_for_fa4", module)
    monkeypatch.setattr(_fa4, "_FA4_MODULE_PATH", "stand_in_for_fa4")
    monkeypatch.setattr(_fa4, "_get_device_major", lambda device: 9)
    monkeypatch.setattr(_fa4, "_fa4_common_support_error", lambda *_, **__: None)
    monkeypatch.setattr(variable_length, "_forward", _fa4._fa4_flash_attention_forward_impl)
    monkeypatch.setattr(variable_length, "_backward", _fa4._fa4_flash_attention_backward_impl)
    assert_model_equals_plain_training(model_of(config_of(family), 1), 2, kind="sliced",
                                       recompute="full", stages=2)
    assert not kernel.calls


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
