#!/usr/bin/env python3
"""FlashAttention-2 of torch, FlashAttention-4 compiled ahead of time, and cuDNN: errors against fp64,
whether bits repeat, and speed of both passes at heads of 64 and 128."""

import functools
import itertools
import math

import torch
from fa4_library import Fa4, find_library
from part import Part

ERROR = {"lse": 1e-5, "out": 8e-3, "dq": 8e-3, "dk": 8e-3, "dv": 8e-3}
EXPECTED = {("FA2", 64): (300, 250), ("FA2", 128): (370, 290), ("FA4", 64): (380, 350),
            ("FA4", 128): (600, 500)}  # TFLOP/s, forward and backward
SPEEDS = {"one of 32K": [(32768, 32768)], "eight of 4K": [(4096, 4096)] * 8,
          "ten uneven": [(n, n) for n in (12000, 7000, 4000, 3000, 2500, 1500, 1200, 800, 500, 268)],
          "8K after 32K": [(8192, 40960)], "one of 128K": [(131072, 131072)]}


class Problem:
    """Sequences of (queries, keys); the queries are the last part of each."""

    def __init__(self, part, N, G, D, sequences):
        self.sequences, self.scale = sequences, D ** -0.5
        lengths = list(zip(*sequences))  # of queries, of keys
        self.longest = list(map(max, lengths))
        self.bounds = [torch.tensor([0, *itertools.accumulate(each)], dtype=torch.int32,
                                    device=part.device) for each in lengths]
        rows, keys = map(sum, lengths)
        self.q, self.dout = part.random(rows, N, D), part.random(rows, N, D)
        self.k, self.v = part.random(keys, G, D), part.random(keys, G, D)
        pairs = sum(q * (k - q) + q * (q + 1) / 2 for q, k in sequences)
        self.flops = 4 * N * D * pairs  # of the forward pass; 2.5 times as many backward


class Fa2Of:
    def __init__(self, problem):
        self.p = problem

    def forward(self):
        p = self.p
        self.out, self.lse, *self.dropout, _ = torch.ops.aten._flash_attention_forward(
            p.q, p.k, p.v, *p.bounds, *p.longest, 0.0, True, False)

    def backward(self):
        p = self.p
        self.dq, self.dk, self.dv = torch.ops.aten._flash_attention_backward(
            p.dout, p.q, p.k, p.v, self.out, self.lse, *p.bounds, *p.longest, 0.0, True, *self.dropout)


class Fa4Of:
    def __init__(self, problem, fixed_order=False):
        self.p, self.fixed_order = problem, fixed_order
        self.kernels = Fa4(problem.q.size(2), problem.q.size(1) // problem.k.size(1))

    def forward(self):
        p = self.p
        self.out, self.lse = self.kernels.forward(p.q, p.k, p.v, p.bounds, p.scale)

    def backward(self):
        p = self.p
        self.dq, self.dk, self.dv = self.kernels.backward(
            p.dout, p.q, p.k, p.v, self.out, self.lse, p.bounds, p.scale, p.longest, self.fixed_order)


class PlainOf:
    """Plain operators in the numbers' own type: the exact ones, and a stand-in on processors."""

    def __init__(self, problem, dtype=None):
        self.p, self.dtype = problem, dtype

    def forward(self):
        p = self.p
        self.leaves = [x.to(self.dtype or x.dtype).detach().requires_grad_() for x in (p.q, p.k, p.v)]
        group, outs, lses = p.q.size(1) // p.k.size(1), [], []
        for i, (queries, keys) in enumerate(p.sequences):
            first = [bounds[i].item() for bounds in p.bounds]
            q = self.leaves[0][first[0]:first[0] + queries]
            k, v = (x[first[1]:first[1] + keys].repeat_interleave(group, 1) for x in self.leaves[1:])
            scores = torch.einsum("tnd,snd->nts", q, k) * p.scale
            hidden = torch.ones(queries, keys, dtype=torch.bool, device=q.device)
            scores = scores.masked_fill(hidden.triu(keys - queries + 1), -math.inf)
            lses.append(scores.logsumexp(2))
            outs.append(torch.einsum("nts,snd->tnd", scores.softmax(2), v))
        self.out, self.lse = torch.cat(outs), torch.cat(lses, 1).detach()

    def backward(self):
        self.dq, self.dk, self.dv = torch.autograd.grad(self.out, self.leaves,
                                                        self.p.dout.to(self.out.dtype))


def kinds(part):
    """Returns {name: what runs a Problem}. FA4 comes last: should it break, the others' figures are there."""
    found = {"plain": PlainOf} if part.small else {"FA2": Fa2Of}
    if find_library() and not part.small:
        found |= {"FA4": Fa4Of, "FA4 fixed order": functools.partial(Fa4Of, fixed_order=True)}
    return found


def check(part, name, kind, D):
    """One tile and less, several, a prefix, and only a prefix's last row."""
    p = Problem(part, 8, 2, D, [(5, 5), (130, 200), (300, 700), (1, 129), (384, 384)])
    exact, found = PlainOf(p, torch.float64), kind(p)
    for each in (exact, found):
        each.forward()
        each.backward()
    norm = torch.linalg.vector_norm
    for result, limit in ERROR.items():
        reference = getattr(exact, result).detach().double()
        error = (norm(getattr(found, result).double() - reference) / norm(reference)).item()
        limit = limit if part.device.type == "cuda" else 2e-2  # bf16 throughout
        part.line(f"{name} D={D}: {result}", error=error, limit=limit, good=error <= limit)


def repeat(part, name, kind, D):
    sequences = [(9, 20)] if part.small else [(2000, 6000), (4096, 4096), (777, 777)]
    attention, kept = kind(Problem(part, 32, 8, D, sequences)), []
    attention.forward()
    for _ in range(3):
        attention.backward() if not part.small else (attention.forward(), attention.backward())
        kept.append([x.clone() for x in (attention.dq, attention.dk, attention.dv)])
    same = all(torch.equal(a, b) for other in kept[1:] for a, b in zip(kept[0], other))
    part.line(f"{name} D={D}: the same bits three times", same=same,
              good=same or name != "FA4 fixed order")


def speed(part, name, kind, D, label, sequences):
    p = Problem(part, 32, 8, D, sequences)
    attention = kind(p)
    forward = part.seconds(attention.forward)
    backward = part.seconds(attention.backward if not part.small
                            else lambda: (attention.forward(), attention.backward()))
    expected = EXPECTED.get((name, D), ())
    part.line(f"{name} D={D}, {label}", forward_tflops=p.flops / forward / 1e12,
              backward_tflops=2.5 * p.flops / backward / 1e12,
              expected=", ".join(map(str, expected)) or "80% of the other order")


def cudnn(part, D):
    """cuDNN's dense kernel for one causal document: what this card can do."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    tokens = 64 if part.small else 8192
    q, k, v, dout = (part.random(1, 32, tokens, D) for _ in range(4))
    leaves = [x.requires_grad_() for x in (q, k, v)]
    call = functools.partial(torch.nn.functional.scaled_dot_product_attention, *leaves, is_causal=True)
    flops = 4 * 32 * D * tokens * (tokens + 1) / 2
    with sdpa_kernel(SDPBackend.MATH if part.small else SDPBackend.CUDNN_ATTENTION):
        out, forward = call(), part.seconds(call)
        backward = part.seconds(lambda: torch.autograd.grad(out, leaves, dout, retain_graph=True))
    part.line(f"cuDNN dense D={D}, one of 8K", forward_tflops=flops / forward / 1e12,
              backward_tflops=2.5 * flops / backward / 1e12, expected="1.7 to 2.3 times FA2")


def main():
    part = Part("attention")
    if not find_library():
        part.line("FA4", missing="no libslimpack_fa4.so")
    heads = (16,) if part.small else (64, 128)
    cases = {"tiny": [(5, 5), (9, 20)]} if part.small else SPEEDS
    for name, kind in kinds(part).items():
        for D in heads:
            part.guarded(f"check {name} D={D}", check, name, kind, D)
            part.guarded(f"repeat {name} D={D}", repeat, name, kind, D)
    for name, kind in kinds(part).items():
        for (label, sequences), D in itertools.product(cases.items(), heads):
            part.guarded(f"{name} D={D}, {label}", speed, name, kind, D, label, sequences)
    for D in heads:
        part.guarded(f"cuDNN D={D}", cudnn, D)


if __name__ == "__main__":
    main()
