"""Scans of recurrent layers, wrapped so that they take the states which slices enter with.

transformers' layers choose by the number of tokens: with a state and one token they take a kernel
for generating, which has no gradients. Here they see no recurrent state, so they always call the
scan for many tokens, and that gets the state from the Segment that runs.

Wrappers stay in the family's module, since checkpoints run layers again. Outside of a Segment they
call the scan as it is.
"""

import contextlib
import functools
import inspect
import sys
import threading
from typing import NamedTuple

import torch
from torch.nn import functional

_STATE_NAMES = ("initial_state", "initial_states")
_MAMBA_1 = "mamba_selective_scan"  # takes no state, neither in torch nor in CUDA
_FOR_ONE_TOKEN = ("recurrent", "update")  # in names of what generates
_STRENGTH = "beta"  # of what a token writes: an argument of delta rules alone
_BOUNDS = {"cu_seqlens", "seq_idx"}  # by which kernels keep documents apart
_now = threading.local()  # segment: the one that runs in this thread; backward has threads of its own


@contextlib.contextmanager
def running_on(segment):
    """Within it, wrapped scans take the segment's state."""
    _now.segment = segment
    try:
        yield
    finally:
        _now.segment = None


def run_kernels_on_gpus_alone(family):
    """Makes a family's code take torch's scans and convolutions instead of those of packages
    (flash-linear-attention, mamba_ssm, causal_conv1d) for tensors that these have no kernel for: in
    the host's memory, and fp64."""
    _run_kernels_on_gpus_alone(vars(sys.modules[family.__module__]))


def _run_kernels_on_gpus_alone(code):
    for name, function in list(code.items()):
        if choice_of(function).get("is_new_implementation") and not hasattr(function, "slimpack_own"):
            code[name] = _with_torchs_own(function)


def choice_of(function):
    """Returns what transformers has found for a function that is a package's kernel where there is
    one, by names of the closure that it makes for it; {} for others."""
    while inspect.isfunction(function):
        if "is_new_implementation" in (found := inspect.getclosurevars(function).nonlocals):
            return found
        function = getattr(function, "__wrapped__", None)
    return {}


def has_kernels_for(tensor):
    """Whether packages' kernels take such a tensor."""
    return tensor.is_cuda and tensor.dtype != torch.float64


def _with_torchs_own(kernel):
    own = kernel.__wrapped__
    known = inspect.signature(own).parameters

    @functools.wraps(kernel)
    def wrapper(*args, **kwargs):
        tensor = next(value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor))
        if has_kernels_for(tensor):
            return kernel(*args, **kwargs)
        return own(*args, **{name: value for name, value in kwargs.items() if name in known})

    wrapper.slimpack_own = own
    return wrapper


class Scans(NamedTuple):
    """The scans that a mixer's code calls.

    exist: whether there are any.
    products: multiply-adds of a token with each element of a recurrent state, as if token by token: it
        is written and read. A delta rule reads before it writes, too: what the token's key recalls.
    bounded: whether the code calls packages' kernels alone, and all keep documents apart.
    """

    exist: bool
    products: int
    bounded: bool

    def keep_apart(self, tensor):
        """Whether one call may hold several documents, for tensors on its device and of its dtype."""
        return self.bounded and has_kernels_for(tensor)


def wrap_scans(mixer):
    """Wraps the scans that a mixer's code calls: the Scans."""
    code = inspect.unwrap(type(mixer).forward).__globals__
    _run_kernels_on_gpus_alone(code)
    for name, scan in list(code.items()):
        if (wrapped := _wrapped(name, scan)) is not None:
            code[name] = wrapped
    scans = [function for function in code.values() if hasattr(function, "slimpack_scan")]
    is_delta_rule = any(_STRENGTH in inspect.signature(scan).parameters for scan in scans)
    return Scans(bool(scans), 3 if is_delta_rule else 2, _all_take_bounds(code))


def _all_take_bounds(code):
    """Whether all that some code calls for many tokens are packages' kernels that take bounds."""
    found = [choice for name, function in code.items() if (choice := choice_of(function))
             and not any(part in name for part in _FOR_ONE_TOKEN)]
    return bool(found) and all(
        choice["is_new_implementation"] and not _BOUNDS.isdisjoint(choice["applicable_params"])
        for choice in found)


def _wrapped(name, scan):
    """None = it is no scan, or wrapped already."""
    if not inspect.isfunction(scan) or not hasattr(scan, "__wrapped__") or hasattr(scan, "slimpack_scan"):
        return None
    if name == _MAMBA_1:
        return _named_as(scan, functools.partial(_scan_mamba_1, scan))
    takes = [state for state in _STATE_NAMES if state in inspect.signature(scan).parameters]
    if takes and not any(part in name for part in _FOR_ONE_TOKEN):
        return _named_as(scan, functools.partial(_scan_from_state, scan, takes[0]))
    return None


def _named_as(scan, run):
    @functools.wraps(scan)
    def wrapper(*args, **kwargs):
        return run(getattr(_now, "segment", None), *args, **kwargs)

    wrapper.slimpack_scan = True
    return wrapper


def _scan_from_state(scan, state_name, segment, *args, **kwargs):
    if "cu_seq_lens_q" in kwargs:  # some mixers call bounds what scans do, others hand on what they get
        kwargs["cu_seqlens"] = kwargs.pop("cu_seq_lens_q")
    if segment is not None and segment.withheld is not None:
        kwargs[state_name] = segment.withheld
    return scan(*args, **kwargs)


def _scan_mamba_1(scan, segment, x_1DT, dt_1DT, A_DN, B_1NT, C_1NT, D=None, z=None, delta_bias=None,
                  delta_softplus=False, return_last_state=False, **options):
    """Has N tokens before the others write the state and N after them read it, where N numbers are a
    channel's state. A token before has a step so small that nothing decays, and a unit vector as B;
    one after has no step, and a unit vector as C. So the scan's own gradient is that of the
    states."""
    if segment is None:
        return scan(x_1DT, dt_1DT, A_DN, B_1NT, C_1NT, D, z, delta_bias, delta_softplus,
                    return_last_state, **options)
    dtype = torch.float64 if x_1DT.dtype == torch.float64 else torch.float32
    x, dt, B, C = (tensor.to(dtype) for tensor in (x_1DT, dt_1DT, B_1NT, C_1NT))
    if delta_bias is not None:
        dt = dt + delta_bias[..., None].to(dtype)
    if delta_softplus:
        dt = functional.softplus(dt)
    N, tokens = A_DN.shape[-1], x.shape[-1]
    unit = torch.eye(N, dtype=dtype, device=x.device)[None]
    none = x.new_zeros(1, x.shape[1], N)
    off = torch.zeros_like(unit)
    if segment.withheld is not None:
        step = 2.0 ** (-60 if dtype == torch.float64 else -30)
        x, dt = torch.cat([segment.withheld.to(dtype) / step, x], 2), torch.cat([none + step, dt], 2)
        B, C = torch.cat([unit, B], 2), torch.cat([off, C], 2)
    before = x.shape[-1] - tokens
    if segment.leaves:
        x, dt = torch.cat([x, none], 2), torch.cat([dt, none], 2)
        B, C = torch.cat([B, off], 2), torch.cat([C, unit], 2)
    y = scan(x, dt, A_DN, B, C, **options)
    last = y[..., before + tokens:] if segment.leaves else y.new_zeros(none.shape)
    y = y[..., before:before + tokens]
    if D is not None:
        y = y + x_1DT * D[None, :, None]
    if z is not None:
        y = y * functional.silu(z)
    y = y.to(x_1DT.dtype)
    return (y, last) if return_last_state else y
