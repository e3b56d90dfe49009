"""Whole documents of a MicroPack run through a mixer in one call where its kernels take bounds.

No package with such kernels runs without a GPU. Functions of their signatures take their places, as
transformers finds them, and compute with transformers' own code, one document after another.
"""

import inspect
import sys
from types import SimpleNamespace

import pytest
import torch
from families import config_of, model_of
from pipeline_states_test import documents_of, plan_of
from slimpack.torch.pipeline import scans
from slimpack.torch.pipeline.comparison import Fp64Casts, largest_difference, plain_step
from transformers.integrations.hub_kernels import use_kernel_func_from_hub_with_fallback
from trial import assert_step_equals_plain_training, run_locally

PACKAGES = "fla", "causal_conv1d", "mamba_ssm"


class Kernels:
    """Kernels of packages for a family's code.

    documents: of each call, how many it kept apart. ignore: whether bounds are overlooked.
    """

    def __init__(self, code):
        self.documents, self.ignore = [], False
        self._own = {name: inspect.unwrap(function) for name, function in vars(code).items()
                     if inspect.isfunction(function)}

    def package(self, name):
        """A package's module, with what it calls its kernels."""
        ops = SimpleNamespace(
            gated_delta_rule=SimpleNamespace(chunk_gated_delta_rule=self._gated_delta_rule),
            kda=SimpleNamespace(chunk_kda=self._kimi_delta_rule),
            triton=SimpleNamespace(ssd_combined=SimpleNamespace(
                mamba_chunk_scan_combined=self._mamba_2,
                mamba_split_conv1d_scan_combined=self._mamba_2_with_convolution)),
            selective_scan_interface=SimpleNamespace(selective_scan_fn=self._mamba_1))
        return {"fla": SimpleNamespace(ops=ops), "mamba_ssm": SimpleNamespace(ops=ops),
                "causal_conv1d": SimpleNamespace(causal_conv1d_fn=self._convolution)}[name]

    def _convolution(self, x, weight, bias=None, seq_idx=None, initial_states=None,
                     return_final_states=False, final_states_out=None, activation=None):
        assert seq_idx is None or x.stride(1) == 1  # with bounds it takes channels last alone
        return self._apart(2, _bounds(seq_idx), lambda of: self._own["causal_conv1d_fn"](
            of(x, 2), weight, bias, activation=activation))

    def _gated_delta_rule(self, q, k, v, g, beta, scale=None, initial_state=None,
                          output_final_state=False, use_qk_l2norm_in_kernel=False,
                          cu_seqlens=None, **kwargs):
        return self._delta("torch_chunk_gated_delta_rule", (q, k, v, g, beta), cu_seqlens,
                           initial_state, output_final_state, use_qk_l2norm_in_kernel)

    def _kimi_delta_rule(self, q, k, v, g, beta, scale=None, initial_state=None,
                         output_final_state=False, use_qk_l2norm_in_kernel=False,
                         cu_seqlens=None, **kwargs):
        return self._delta("chunk_kimi_delta_attention", (q, k, v, g, beta), cu_seqlens,
                           initial_state, output_final_state, use_qk_l2norm_in_kernel)

    def _delta(self, name, rows, bounds, initial_state, output_final_state, normalized):
        assert bounds is None or (initial_state is None and not output_final_state)
        last = []

        def run(of):
            output, state = self._own[name](
                *[of(tensor, 1) for tensor in rows], initial_state=initial_state,
                output_final_state=output_final_state, use_qk_l2norm_in_kernel=normalized)
            last.append(state)
            return output

        return self._apart(1, None if bounds is None else bounds.tolist(), run), last[-1]

    def _mamba_2(self, x, dt, A, B, C, chunk_size, D=None, z=None, dt_bias=None,
                 initial_states=None, seq_idx=None, cu_seqlens=None, dt_softplus=False,
                 dt_limit=(0.0, float("inf")), return_final_states=False,
                 return_varlen_states=False):
        assert seq_idx is None or (initial_states is None and not return_final_states)
        last = []

        def run(of):
            output = self._own["mamba2_chunk_scan"](
                of(x, 1), of(dt, 1), A, of(B, 1), of(C, 1), chunk_size, D, dt_bias,
                initial_states, dt_softplus, dt_limit, return_final_states)
            last.append(output)
            return output[0] if return_final_states else output

        output = self._apart(1, _bounds(seq_idx), run)
        return (output, last[-1][1]) if return_final_states else output

    def _mamba_2_with_convolution(self, zxbcdt, conv1d_weight, conv1d_bias, dt_bias, A, D, chunk_size,
                                  initial_states=None, seq_idx=None, **options):
        return None  # as transformers' own does, so that the other two run

    def _mamba_1(self, u, delta, A, B, C, D=None, z=None, delta_bias=None, delta_softplus=False,
                 return_last_state=False):
        return self._own["mamba_selective_scan"](u, delta, A, B, C, D, z, delta_bias,
                                                 delta_softplus, return_last_state)

    def _apart(self, dim, bounds, run):
        """Returns what `run` returns for each document, joined. It gets a function that takes the
        document's part of a tensor."""
        if bounds is None or self.ignore:
            return run(lambda tensor, _: tensor)
        self.documents.append(len(bounds) - 1)
        return torch.cat([run(lambda tensor, at, begin=begin, end=end: tensor.narrow(
            at, begin, end - begin)) for begin, end in zip(bounds, bounds[1:], strict=False)], dim)


def _bounds(seq_idx):
    """Where documents begin, and the end, of the number of each row's document."""
    if seq_idx is None:
        return None
    assert seq_idx.dtype == torch.int32
    _, lengths = seq_idx[0].unique_consecutive(return_counts=True)
    return [0, *lengths.cumsum(0).tolist()]


def tiny_with_kernels(monkeypatch, family, packages=PACKAGES):
    """(a model, the Kernels that its code finds)."""
    monkeypatch.setattr(scans, "has_kernels_for", lambda tensor: True)
    model = model_of(config_of(family), 1)
    code = sys.modules[type(model).__module__]
    kernels = Kernels(code)
    for package in packages:
        monkeypatch.setitem(sys.modules, package, kernels.package(package))
    for name, function in list(vars(code).items()):
        if choice := scans.choice_of(function):
            found = use_kernel_func_from_hub_with_fallback(choice["func_name"], choice["package"])
            monkeypatch.setattr(code, name, found(inspect.unwrap(function)))
    return model, kernels


# Documents 0, 2, 3 and 4 are whole in both passes; of 1 slices begin at 30 and at 20. Document 5 is
# whole in the forward pass alone, which leaves states at 3.
LENGTHS = [5, 40, 1, 9, 70, 6]
PLAN = (
    [[[0, 0, 5], [1, 0, 30], [2, 0, 1], [3, 0, 9]], [[1, 30, 40], [4, 0, 70], [5, 0, 6]]],
    [[[4, 0, 70], [1, 20, 40], [5, 3, 6]], [[0, 0, 5], [1, 0, 20], [2, 0, 1], [3, 0, 9], [5, 0, 3]]],
)
BOUNDED = ["qwen3_next", "qwen3_5_text", "olmo_hybrid", "kimi_linear", "bailing_hybrid", "lfm2", "bamba",
           "granitemoehybrid", "falcon_h1", "nemotron_h", "mamba2"]


@pytest.mark.parametrize("family", BOUNDED)
def test_whole_documents_run_in_one_call(monkeypatch, family):
    model, kernels = tiny_with_kernels(monkeypatch, family)
    assert_step_equals_plain_training(model, plan_of(LENGTHS, *PLAN), documents_of(LENGTHS))
    # The first of the four MicroPacks and the last hold documents 0, 2 and 3, others one alone.
    assert set(kernels.documents) == {3}


@pytest.mark.parametrize("recompute", ["nothing", "elementwise"])
@pytest.mark.parametrize("family", ["qwen3_next", "mamba2"])
def test_kept_graphs_hold_whole_documents_of_one_call(monkeypatch, family, recompute):
    model, kernels = tiny_with_kernels(monkeypatch, family)
    forward = PLAN[0]
    plan = plan_of(LENGTHS, forward, forward[::-1], recompute=recompute)
    assert_step_equals_plain_training(model, plan, documents_of(LENGTHS))
    assert set(kernels.documents) == {2, 3}  # 4 and 5 are whole here; 0, 2 and 3


@pytest.mark.parametrize("family", ["qwen3_next", "kimi_linear", "mamba2", "lfm2"])
def test_kernels_that_overlook_bounds_fail(monkeypatch, family):
    model, kernels = tiny_with_kernels(monkeypatch, family)
    kernels.ignore = True
    engine, _ = run_locally(model, plan_of(LENGTHS, *PLAN), documents_of(LENGTHS))
    with Fp64Casts():
        plain_step(model, documents_of(LENGTHS))
    assert largest_difference(model, engine.stages)[0] > 1e-3


@pytest.mark.parametrize(("family", "packages"), [
    ("mamba", PACKAGES),  # its scan takes no bounds
    ("jamba", PACKAGES),
    ("qwen3_next", ["fla"]),  # torch's convolution takes none
    ("bamba", ["causal_conv1d"]),
])
def test_where_a_part_takes_no_bounds_documents_run_one_by_one(monkeypatch, family, packages):
    model, kernels = tiny_with_kernels(monkeypatch, family, packages)
    assert_step_equals_plain_training(model, plan_of(LENGTHS, *PLAN), documents_of(LENGTHS))
    assert not kernels.documents


def test_tensors_that_kernels_do_not_take_run_one_by_one(monkeypatch):
    model, kernels = tiny_with_kernels(monkeypatch, "qwen3_next")
    monkeypatch.setattr(scans, "has_kernels_for", lambda tensor: False)
    assert_step_equals_plain_training(model, plan_of(LENGTHS, *PLAN), documents_of(LENGTHS))
    assert not kernels.documents
