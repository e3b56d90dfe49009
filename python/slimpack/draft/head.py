"""EAGLE-3's draft head.

Shapes: T rows, H hidden size, E target's hidden size, V draft vocabulary, N heads, K key heads, D
size of a head.

1. g_TH = fc([a; b; c]): three of the target's hidden states of token t_i.
2. Row i pairs g_i with the embedding e of the token after it, t_{i+1}.
3. x = [input_layernorm(e); hidden_norm(g)] gives queries, keys and values; RoPE position i.
4. y = g + o_proj(attention); out = y + mlp(post_attention_layernorm(y)).
5. lm_head(norm(out)) are the logits of t_{i+2}; out is the g of the next row, which fc has no part in.

With norm_before_residual y = hidden_norm(g) + …; with norm_output the next g is norm(out).
"""

import torch
from torch import nn


class DraftHead(nn.Module):
    """A head with the published tensor names. Its parameters train, but for a vocabulary of its own
    (`embed_tokens`), if it has one.

    d2t: by draft token the target's token minus the draft token. t2d: by target token whether the head
    can guess it.
    """

    def __init__(self, config, own_embedding=False):
        super().__init__()
        self.config = config
        hidden, target_hidden = config.hidden_size, config.target_hidden_size
        self.fc = nn.Linear(3 * target_hidden, hidden, bias=False)
        if config.fc_norm:
            self.fc_norm = nn.ModuleList(_Norm(target_hidden, config) for _ in range(3))
        self.midlayer = _Layer(config)
        self.norm = _Norm(hidden, config)
        self.lm_head = nn.Linear(hidden, config.draft_vocab_size, bias=False)
        if own_embedding:
            self.embed_tokens = nn.Embedding(config.vocab_size, hidden).requires_grad_(False)
        self.register_buffer("d2t", torch.zeros(config.draft_vocab_size, dtype=torch.int64))
        known_V = torch.arange(config.vocab_size) < config.draft_vocab_size
        self.register_buffer("t2d", known_V)

    @property
    def target_ids(self):
        """By draft token the target's token."""
        return torch.arange(len(self.d2t), device=self.d2t.device) + self.d2t

    def set_vocabulary(self, ids):
        """Chooses the tokens that the head can guess: draft_vocab_size ascending target tokens."""
        ids = torch.as_tensor(ids, dtype=torch.int64)
        self.d2t.copy_(ids - torch.arange(len(ids)))
        self.t2d.zero_()
        self.t2d[ids] = True

    def embed(self, tokens_T, target_embedding_VH):
        """The frozen embeddings of tokens: the head's own, or else the target's."""
        own = getattr(self, "embed_tokens", None)
        return nn.functional.embedding(tokens_T, target_embedding_VH if own is None else own.weight)

    def combine(self, hidden_T3E):
        """g of the target's three hidden states."""
        if self.config.fc_norm:
            parts = hidden_T3E.split(self.config.target_hidden_size, -1)
            hidden_T3E = torch.cat([norm(part) for norm, part in zip(self.fc_norm, parts)], -1)
        return self.fc(hidden_T3E)

    def layer(self, embedded_TH, g_TH, positions_T, attend):
        """(logits_TV, next g_TH). attend(q_TND, k_TKD, v_TKD) returns the attention's output, TND;
        queries and keys are turned to their positions."""
        out_TH = self.midlayer(embedded_TH, g_TH, positions_T, attend)
        normed_TH = self.norm(out_TH)
        return self.lm_head(normed_TH), normed_TH if self.config.norm_output else out_TH


class _Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden = config.hidden_size
        self.norm_before_residual = config.norm_before_residual
        self.hidden_norm = _Norm(hidden, config)
        self.input_layernorm = _Norm(hidden, config)
        self.post_attention_layernorm = _Norm(hidden, config)
        self.self_attn = _Attention(config)
        self.mlp = _Mlp(hidden, config.intermediate_size)

    def forward(self, embedded_TH, g_TH, positions_T, attend):
        normed_TH = self.hidden_norm(g_TH)
        x = torch.cat([self.input_layernorm(embedded_TH), normed_TH], -1)
        residual_TH = normed_TH if self.norm_before_residual else g_TH
        y_TH = residual_TH + self.self_attn(x, positions_T, attend)
        return y_TH + self.mlp(self.post_attention_layernorm(y_TH))


class _Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.head_dim, self.theta = config.head_dim, config.rope_theta
        queries = config.num_attention_heads * config.head_dim
        keys = config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(2 * config.hidden_size, queries, bias=False)
        self.k_proj = nn.Linear(2 * config.hidden_size, keys, bias=False)
        self.v_proj = nn.Linear(2 * config.hidden_size, keys, bias=False)
        self.o_proj = nn.Linear(queries, config.hidden_size, bias=False)

    def forward(self, x, positions_T, attend):
        q_TND, k_TKD, v_TKD = (project(x).unflatten(-1, (-1, self.head_dim))
                               for project in (self.q_proj, self.k_proj, self.v_proj))
        cos_T1D, sin_T1D = rotation(positions_T, self.head_dim, self.theta, q_TND.dtype)
        out_TND = attend(turned(q_TND, cos_T1D, sin_T1D), turned(k_TKD, cos_T1D, sin_T1D), v_TKD)
        return self.o_proj(out_TND.flatten(-2))


class _Mlp(nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class _Norm(nn.Module):
    """RMSNorm whose weight follows what it norms: its kernel takes one type alone."""

    def __init__(self, hidden, config):
        super().__init__()
        self.eps = config.rms_norm_eps
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        return nn.functional.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.eps)


def rotation(positions_T, head_dim, theta, dtype):
    """cos and sin of the RoPE angles, shape T1D; the second half of D repeats the first."""
    wide = torch.promote_types(dtype, torch.float32)
    even = torch.arange(0, head_dim, 2, dtype=wide, device=positions_T.device)
    angles = positions_T.to(wide)[:, None] * theta ** (-even / head_dim)
    angles_T1D = torch.cat([angles, angles], -1)[:, None]
    return angles_T1D.cos().to(dtype), angles_T1D.sin().to(dtype)


def turned(x, cos_T1D, sin_T1D):
    """RoPE in Llama's form: pairs are (d, d + D/2)."""
    first, second = x.chunk(2, -1)
    return x * cos_T1D + torch.cat([-second, first], -1) * sin_T1D
