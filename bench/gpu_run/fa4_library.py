"""FlashAttention-4 compiled ahead of time (tools/fa4), called from Python: the structures of
fa4_library.h."""

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_float, c_int32, c_int64, c_void_p

import torch
from part import bundle

_INTERFACE = 1


class _Rows(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("rows", c_int32), ("heads", c_int32), ("row_stride", c_int64),
                ("head_stride", c_int64)]

    def __init__(self, x_THD):
        super().__init__(x_THD.data_ptr(), *x_THD.shape[:2], *x_THD.stride()[:2])


class _Columns(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("heads", c_int32), ("columns", c_int32),
                ("head_stride", c_int64)]


class _Bounds(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("count", c_int32)]


class _Attention(ctypes.Structure):
    _fields_ = [("q", _Rows), ("k", _Rows), ("v", _Rows), ("out", _Rows), ("lse", _Columns),
                ("scale", c_float), ("q_bounds", _Bounds), ("k_bounds", _Bounds)]


class _Gradients(ctypes.Structure):
    _fields_ = [("dout", _Rows), ("dq", _Rows), ("dk", _Rows), ("dv", _Rows), ("fixed_order", c_int32),
                ("longest_queries", c_int32), ("longest_keys", c_int32)]


_BOTH = [c_void_p, POINTER(_Attention), POINTER(_Gradients)]


class _Functions(ctypes.Structure):
    _fields_ = [("version", c_int32), ("packages", c_char_p),
                ("find", ctypes.CFUNCTYPE(c_void_p, c_int32, c_int32, c_int32)),
                ("runs_here", ctypes.CFUNCTYPE(c_int32)),
                ("load", ctypes.CFUNCTYPE(c_int32, c_void_p)),
                ("forward", ctypes.CFUNCTYPE(c_int32, c_void_p, POINTER(_Attention), c_void_p)),
                ("workspace_bytes", ctypes.CFUNCTYPE(c_int64, *_BOTH)),
                ("backward", ctypes.CFUNCTYPE(c_int32, *_BOTH, c_void_p, c_void_p)),
                ("error_text", ctypes.CFUNCTYPE(c_char_p, c_int32))]


def find_library():
    """The library's path: SLIMPACK_FA4, or of the bundle; None where there is none."""
    places = [os.environ.get("SLIMPACK_FA4"), bundle() / "fa4" / "libslimpack_fa4.so",
              bundle() / "build" / "release" / "libslimpack_fa4.so"]
    return next((str(place) for place in places if place and os.path.exists(place)), None)


class Fa4:
    """The kernels of one shape. Raises RuntimeError where the library has none, or none that run
    here."""

    def __init__(self, head_dim, group, path=None):
        library = ctypes.CDLL(path or find_library())
        library.slimpack_fa4.restype = POINTER(_Functions)
        self._f = library.slimpack_fa4().contents
        if self._f.version != _INTERFACE:
            raise RuntimeError(f"its interface is {self._f.version}, not {_INTERFACE}")
        self._kernels = self._f.find(head_dim, group, 1)
        if not self._kernels or not self._f.runs_here():
            raise RuntimeError(f"no kernels for D = {head_dim}, group {group} on this device")
        self._done(self._f.load(self._kernels))

    def forward(self, q, k, v, bounds, scale):
        """(out, lse [N, T]) of [T, N, D], [S, G, D] and bounds of queries and of keys."""
        out, lse = torch.empty_like(q), torch.empty(q.shape[1::-1], device=q.device)
        self._done(self._f.forward(self._kernels, byref(self._call(q, k, v, out, lse, bounds, scale)),
                                   self._stream()))
        return out, lse

    def backward(self, dout, q, k, v, out, lse, bounds, scale, longest, fixed_order=False):
        """(dq, dk, dv). longest: rows of one sequence, of queries and of keys."""
        grads = [torch.empty_like(x) for x in (q, k, v)]
        call = self._call(q, k, v, out, lse, bounds, scale)
        d = _Gradients(_Rows(dout), *map(_Rows, grads), fixed_order, *longest)
        size = self._f.workspace_bytes(self._kernels, byref(call), byref(d))
        workspace = torch.empty(size + 256, dtype=torch.uint8, device=q.device)
        aligned = -(-workspace.data_ptr() // 256) * 256
        self._done(self._f.backward(self._kernels, byref(call), byref(d), aligned, self._stream()))
        return tuple(grads)

    @staticmethod
    def _call(q, k, v, out, lse, bounds, scale):
        return _Attention(*map(_Rows, (q, k, v, out)), _Columns(lse.data_ptr(), *lse.shape, lse.stride(0)),
                          scale, *(_Bounds(ends.data_ptr(), ends.numel()) for ends in bounds))

    @staticmethod
    def _stream():
        return torch.cuda.current_stream().cuda_stream if torch.cuda.is_available() else None

    def _done(self, error):
        if error:
            raise RuntimeError(f"CUDA error {error}: {self._f.error_text(error).decode()}")


def activate(head_dim, group):
    """Makes FA4 torch's flash attention on GPUs of this shape, causal and in sequences."""
    kernels = Fa4(head_dim, group)
    library = torch.library.Library("aten", "IMPL", "CUDA")

    def forward(q, k, v, ends_q, ends_k, max_q, max_k, dropout, causal, debug, *, scale=None, **_):
        out, lse = kernels.forward(q, k, v, (ends_q, ends_k), scale or q.shape[-1] ** -0.5)
        of_dropout = (torch.zeros(size, dtype=torch.uint64, device=q.device) for size in ((2,), ()))
        return out, lse, *of_dropout, out.new_empty(0)

    def backward(dout, q, k, v, out, lse, ends_q, ends_k, max_q, max_k, dropout, causal, state, offset,
                 *, scale=None, **_):
        return kernels.backward(dout.contiguous(), q, k, v, out, lse, (ends_q, ends_k),
                                scale or q.shape[-1] ** -0.5, (max_q, max_k))

    library.impl("_flash_attention_forward", forward, "CUDA")
    library.impl("_flash_attention_backward", backward, "CUDA")
    return library  # which holds what is registered
