"""EAGLE-3's head as drafting runs it, one row and one head of attention at a time, in fp64. It shares
nothing with slimpack.draft: tensors come from files by their published names, RoPE is a product of
complex numbers, and keys are kept in a list."""

import cmath
import math

import torch


def norm(x, weight, eps):
    return x / torch.sqrt((x * x).mean() + eps) * weight


def rotated(x, position, theta):
    """Pairs (d, d + D/2) as complex numbers, each turned by position · theta^(−2d/D)."""
    half = len(x) // 2
    out = x.clone()
    for d in range(half):
        turn = cmath.exp(1j * position * theta ** (-2 * d / len(x)))
        turned = complex(x[d], x[d + half]) * turn
        out[d], out[d + half] = turned.real, turned.imag
    return out


class NaiveHead:
    """tensors: by published name (`midlayer.`). values: config.json's keys, with defaults as Llama's."""

    def __init__(self, tensors, values, embedding):
        self.t = {name: tensor.double() for name, tensor in tensors.items()}
        self.eps, self.theta = values["rms_norm_eps"], values.get("rope_theta", 10000.0)
        self.heads, self.keys = values["num_attention_heads"], values["num_key_value_heads"]
        self.size = values["head_dim"]
        self.before_residual = values.get("norm_before_residual", False)
        self.fc_norm, self.norm_output = values.get("fc_norm", False), values.get("norm_output", False)
        self.embedding = self.t.get("embed_tokens.weight", embedding).double()

    def fused(self, hidden):
        """g of three hidden states, side by side."""
        parts = hidden.double().chunk(3)
        if self.fc_norm:
            parts = [norm(part, self.t[f"fc_norm.{k}.weight"], self.eps)
                     for k, part in enumerate(parts)]
        return self.t["fc.weight"] @ torch.cat(list(parts))

    def row(self, token, g, position, cache):
        """(logits, next g) of one row, whose keys and values are added to the cache."""
        t = self.t
        normed = norm(g, t["midlayer.hidden_norm.weight"], self.eps)
        embedded = norm(self.embedding[token], t["midlayer.input_layernorm.weight"], self.eps)
        x = torch.cat([embedded, normed])
        q, k, v = (t[f"midlayer.self_attn.{name}_proj.weight"] @ x for name in "qkv")
        keys = [rotated(part, position, self.theta) for part in k.split(self.size)]
        cache.append((keys, v.split(self.size)))
        out = []
        for head, query in enumerate(q.split(self.size)):
            of = head // (self.heads // self.keys)
            query = rotated(query, position, self.theta)
            scores = torch.stack([query @ ks[of] for ks, _ in cache]) / math.sqrt(self.size)
            weights = torch.exp(scores - scores.max())
            weights /= weights.sum()
            out.append(sum(w * vs[of] for w, (_, vs) in zip(weights, cache)))
        y = normed if self.before_residual else g
        y = y + t["midlayer.self_attn.o_proj.weight"] @ torch.cat(out)
        z = norm(y, t["midlayer.post_attention_layernorm.weight"], self.eps)
        gate, up = t["midlayer.mlp.gate_proj.weight"] @ z, t["midlayer.mlp.up_proj.weight"] @ z
        y = y + t["midlayer.mlp.down_proj.weight"] @ (gate * torch.sigmoid(gate) * up)
        last = norm(y, t["norm.weight"], self.eps)
        return t["lm_head.weight"] @ last, last if self.norm_output else y

    def guesses(self, tokens, hidden, steps):
        """{(i, s): logits of token i + 2 + s}: drafting starts anew behind every row i of true pairs,
        and is fed the true tokens i + 1 + s."""
        found, true_pairs = {}, []
        for i in range(len(tokens) - 1):
            logits, g = self.row(tokens[i + 1], self.fused(hidden[i]), i, true_pairs)
            found[i, 0] = logits
            cache = list(true_pairs)
            for s in range(1, steps):
                if i + 1 + s >= len(tokens):
                    break
                logits, g = self.row(tokens[i + 1 + s], g, i + s, cache)
                found[i, s] = logits
        return found
