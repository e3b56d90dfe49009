"""The recurrences of layers with states, token by token, with each product as a matrix product that
torch's counter sees. They take the place of transformers' scans, which work on padded blocks."""

import sys

import torch
from torch.nn import functional


def causal_conv1d(hidden_states, weight, bias=None, activation=None, **_):
    """Convolves without the padding behind the tokens that transformers' fallback has."""
    before = functional.pad(hidden_states, (weight.shape[-1] - 1, 0))
    out = functional.conv1d(before, weight[:, None], bias, groups=weight.shape[0])
    return functional.silu(out) if activation in ("silu", "swish") else out


def delta_rule(query, key, value, g, beta, initial_state=None, output_final_state=False,
               use_qk_l2norm_in_kernel=False, **_):
    """Gated delta net (g by head) and Kimi delta attention (g by dimension of the key)."""
    heads = value.shape[2]
    query, key = (t.repeat_interleave(heads // t.shape[2], 2).double() for t in (query, key))
    if use_qk_l2norm_in_kernel:
        query, key = (t * torch.rsqrt((t * t).sum(-1, keepdim=True) + 1e-6) for t in (query, key))
    query = query * query.shape[-1] ** -0.5
    decay = g.double().exp()
    decay = decay if decay.ndim == 4 else decay[..., None].expand_as(key)
    state = key.new_zeros(*key.shape[:1], heads, key.shape[-1], value.shape[-1])
    if initial_state is not None:
        state = initial_state.double()
    rows = []
    for t in range(key.shape[1]):
        k, q = key[:, t, :, None, :], query[:, t, :, None, :]
        state = state * decay[:, t, :, :, None]
        written = (value[:, t, :, None, :].double() - k @ state) * beta[:, t, :, None, None].double()
        state = state + k.transpose(-1, -2) @ written
        rows.append((q @ state)[:, :, 0])
    return torch.stack(rows, 1).to(value.dtype), state if output_final_state else None


def mamba2_scan(hidden_states, dt, A, B, C, chunk_size=None, D=None, dt_bias=None, initial_states=None,
                dt_softplus=False, dt_limit=(0.0, float("inf")), return_final_states=False, **_):
    heads = hidden_states.shape[2]
    B, C = (t.repeat_interleave(heads // t.shape[2], 2).double() for t in (B, C))
    x, step = hidden_states.double(), dt.double() + (0 if dt_bias is None else dt_bias.double())
    step = functional.softplus(step) if dt_softplus else step
    step = step.clamp(*dt_limit)
    state = x.new_zeros(x.shape[0], heads, x.shape[-1], B.shape[-1])
    if initial_states is not None:
        state = initial_states.double()
    rows = []
    for t in range(x.shape[1]):
        written = x[:, t, :, :, None] * step[:, t, :, None, None]
        decay = (step[:, t] * A.double())[..., None, None].exp()
        state = state * decay + written @ B[:, t, :, None, :]
        rows.append((state @ C[:, t, :, :, None])[..., 0])
    out = torch.stack(rows, 1)
    if D is not None:
        out = out + x * D.double()[:, None]
    out = out.to(hidden_states.dtype)
    return (out, state) if return_final_states else out


def mamba_scan(hidden_states, dt, A, B, C, D=None, z=None, delta_bias=None, delta_softplus=False,
               return_last_state=False, **_):
    step = dt.double() + (0 if delta_bias is None else delta_bias.double()[:, None])
    step = functional.softplus(step) if delta_softplus else step
    x = hidden_states.double()
    state = x.new_zeros(x.shape[0], x.shape[1], A.shape[-1])
    rows = []
    for t in range(x.shape[-1]):
        # A channel is a batch of its own: its products are 1 × N.
        written = (x[..., t] * step[..., t])[..., None, None] @ B[:, None, None, :, t].double().expand(
            -1, x.shape[1], -1, -1)
        state = state * (step[..., t, None] * A.double()).exp() + written[..., 0, :]
        read = C[:, None, :, t, None].double().expand(-1, x.shape[1], -1, -1)
        rows.append((state[..., None, :] @ read)[..., 0, 0])
    out = torch.stack(rows, -1)
    if D is not None:
        out = out + x * D.double()[:, None]
    if z is not None:
        out = out * functional.silu(z.double())
    out = out.to(hidden_states.dtype)
    return (out, state) if return_last_state else out


SCANS = {"causal_conv1d_fn": causal_conv1d, "torch_chunk_gated_delta_rule": delta_rule,
         "chunk_kimi_delta_attention": delta_rule, "mamba2_chunk_scan": mamba2_scan,
         "mamba_selective_scan": mamba_scan}


def replace_scans(monkeypatch, model):
    """Makes a model's code take these recurrences."""
    code = sys.modules[type(model).__module__]
    for name, scan in SCANS.items():
        if hasattr(code, name):
            monkeypatch.setattr(code, name, scan)
