#!/usr/bin/env python3
"""The fused kernels of packflow, operators of the namespace "slimpack": their errors against plain
operators in fp64, and the bytes that they move a second."""

import torch
from part import Part, model_shape
from torch.nn import functional

ERROR = 4e-3  # of results in bf16: ‖computed − exact‖ / ‖exact‖


class Swiglu:
    def __init__(self, part, s, rows):
        self.gate_up, self.dact = part.random(rows, 2 * s["F"]), part.random(rows, s["F"])
        self.act, self.d_gate_up = torch.empty_like(self.dact), torch.empty_like(self.gate_up)
        numbers = self.dact.numel()
        self.calls = {
            "swiglu": (6 * numbers, lambda: op("swiglu")(self.gate_up, self.act)),
            "swiglu backward": (12 * numbers, lambda: op("swiglu_backward")(
                self.dact, self.gate_up, self.d_gate_up))}
        self.kept = self.dact.clone()

    def results(self):
        leaf = self.gate_up.double().requires_grad_()
        gate, up = leaf.chunk(2, -1)
        act = functional.silu(gate) * up
        gradient, = torch.autograd.grad(act, leaf, self.kept.double())
        return {"act": (self.act, act.detach()), "act again": (self.dact, act.detach()),
                "gradient": (self.d_gate_up, gradient)}


class RmsNorm:
    def __init__(self, part, s, rows):
        self.x, self.dy, self.residual = (part.random(rows, s["H"]) for _ in range(3))
        self.weight, self.y_again = part.random(s["H"]), torch.empty_like(self.x)
        self.kept, numbers = self.dy.clone(), self.x.numel()
        self.calls = {"norm": (4 * numbers, self._forward), "norm backward": (10 * numbers, self._backward)}

    def _forward(self):
        self.y = op("rms_norm")(self.x, self.weight, 1e-5)

    def _backward(self):
        _, partial = op("rms_norm_backward")(self.dy, self.x, self.weight, self.residual, 1e-5,
                                             self.y_again)
        self.dweight = torch.zeros_like(self.weight, dtype=torch.float32)
        op("add_columns")(self.dweight, partial)

    def results(self):
        leaves = self.x.double().requires_grad_(), self.weight.double().requires_grad_()
        y = functional.rms_norm(leaves[0], leaves[1].shape, leaves[1], 1e-5)
        dx, dweight = torch.autograd.grad(y, leaves, self.kept.double())
        return {"y": (self.y, y.detach()), "y again": (self.y_again, y.detach()),
                "dx": (self.dy, dx + self.residual.double()), "dweight": (self.dweight, dweight)}


class CrossEntropy:
    def __init__(self, part, s, rows):
        rows = max(rows // 4, 1)  # logits are wide
        self.logits, self.weight = part.random(rows, s["V"]), torch.full((rows, 1), 1 / 1000)
        self.weight = self.weight.to(part.device)
        self.targets = torch.arange(rows, device=part.device) % s["V"]
        self.kept, numbers = self.logits.clone(), self.logits.numel()
        self.calls = {"cross-entropy": (2 * numbers, self._forward),
                      "cross-entropy backward": (4 * numbers, self._backward)}

    def _forward(self):
        self.lse, self.target = op("cross_entropy")(self.logits, self.targets, 0)

    def _backward(self):
        op("cross_entropy_backward")(self.logits, self.targets, 0, self.lse, self.weight)

    def results(self):
        leaf = self.kept.double().requires_grad_()
        lse = leaf.logsumexp(1)
        target = leaf.gather(1, self.targets[:, None])[:, 0]
        gradient, = torch.autograd.grad((lse - target).sum() / 1000, leaf)
        return {"lse": (self.lse.flatten(), lse.detach()),
                "target": (self.target.flatten(), target.detach()), "gradient": (self.logits, gradient)}


class Rope:
    def __init__(self, part, s, rows):
        self.q, self.k, self.v = (part.random(rows, heads, s["D"]) for heads in (s["N"], s["G"], s["G"]))
        angles = part.random(rows, 1, s["D"] // 2, dtype=torch.float32)
        self.cos, self.sin = angles.cos().bfloat16(), angles.sin().bfloat16()
        self.to = [torch.empty_like(heads) for heads in (self.q, self.k, self.v)]
        self.calls = {"rope": (4 * sum(heads.numel() for heads in self.to), lambda: op("rope")(
            self.q, self.k, self.v, self.cos, self.sin, 1.0, *self.to))}

    def turned(self, heads):
        cos, sin = self.cos.double(), self.sin.double()
        a, b = heads.double().chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def results(self):
        return {"q": (self.to[0], self.turned(self.q)), "k": (self.to[1], self.turned(self.k)),
                "v": (self.to[2], self.v.double())}


class NormedRope(Rope):
    """Rope after the norms of each head."""

    def __init__(self, part, s, rows):
        super().__init__(part, s, rows)
        self.weights = part.random(s["D"]), part.random(s["D"])
        self.dy = [part.random(*heads.shape) for heads in self.to]
        self.gradients = [torch.empty_like(heads) for heads in self.to]
        q, k, v = (heads.numel() for heads in self.to)
        self.calls = {"rope with norms": (4 * (q + k + v), self._forward),
                      "rope with norms backward": (6 * (q + k) + 4 * v, self._backward)}

    def _forward(self):
        op("normed_rope")(self.q, self.k, self.v, self.cos, self.sin, *self.weights, 1e-6, *self.to,
                          None, None)

    def _backward(self):
        partial = op("normed_rope_backward")(*self.dy, self.cos, self.sin, self.q, self.k,
                                             *self.weights, 1e-6, *self.gradients)
        self.dweights = [torch.zeros_like(weight, dtype=torch.float32) for weight in self.weights]
        for dweight, sums in zip(self.dweights, partial):
            op("add_columns")(dweight, sums)

    def results(self):
        leaves = [t.double().requires_grad_() for t in (self.q, self.k, *self.weights)]
        exact = [self.turned(functional.rms_norm(x, w.shape, w, 1e-6))
                 for x, w in zip(leaves[:2], leaves[2:])]
        gradients = torch.autograd.grad(exact, leaves, [dy.double() for dy in self.dy[:2]])
        found = dict(zip(("q", "k"), zip(self.to, (y.detach() for y in exact))))
        names = "q gradient", "k gradient", "q weight", "k weight"
        found |= zip(names, zip((*self.gradients[:2], *self.dweights), gradients))
        return found | {"v": (self.to[2], self.v.double()), "v gradient": (
            self.gradients[2], self.dy[2].double())}


def op(name):
    return getattr(torch.ops.slimpack, name)


def check(part, kind, model, shape):
    """Every result at a few rows."""
    kernel = kind(part, shape, 17)
    for _, call in kernel.calls.values():
        call()
    for name, (found, exact) in kernel.results().items():
        error = (torch.linalg.vector_norm(found.double() - exact)
                 / torch.linalg.vector_norm(exact)).item()
        part.line(f"{kind.__name__} {model}: {name}", error=error, limit=ERROR, good=error <= ERROR)


def speed(part, kind, model, shape):
    for name, (size, call) in kind(part, shape, 64 if part.small else 16_384).calls.items():
        seconds = part.seconds(call)
        figures = dict(tb_per_s=size / seconds / 1e12, milliseconds=seconds * 1e3)
        part.line(f"{name} {model}", **figures, expected="2.5 TB/s or more",
                  good=part.small or figures["tb_per_s"] >= 2.5)


def triton_cross_entropy(part, model, shape):
    """The kernel of any model (slimpack.torch): losses and gradient in one launch, 6 bytes a logit."""
    from slimpack.torch.pipeline.cross_entropy import loss_and_gradient_of

    rows = 4 if part.small else 4096
    logits, targets = part.random(rows, shape["V"]), torch.arange(rows, device=part.device)
    exact = logits[:4].double().requires_grad_()
    gradient, = torch.autograd.grad(
        functional.cross_entropy(exact, targets[:4], reduction="sum") / 1000, exact)
    seconds = part.seconds(lambda: loss_and_gradient_of(logits, targets, 1000, None))
    part.line(f"any model's loss {model}", tb_per_s=logits.nbytes / seconds / 1e12)
    loss_and_gradient_of(logits, targets, 1000, logits)
    error = (torch.linalg.vector_norm(logits[:4].double() - gradient)
             / torch.linalg.vector_norm(gradient)).item()
    seconds = part.seconds(lambda: loss_and_gradient_of(logits, targets, 1000, logits))
    part.line(f"any model's loss and gradient {model}", error=error, good=error <= ERROR,
              tb_per_s=3 * logits.nbytes / seconds / 1e12, expected="2.0 TB/s or more")


def has_kernels(part):
    """Whether the build has them for this device: it found nvcc."""
    from slimpack.runtime import load

    load()  # operators are declared by the library
    key = "CPU" if part.small else "CUDA"
    return (hasattr(torch.ops.slimpack, "swiglu")
            and torch._C._dispatch_has_kernel_for_dispatch_key("slimpack::swiglu", key))


def main():
    part = Part("fused kernels")
    shapes = model_shape(part.small).items()
    for model, shape in shapes:
        part.guarded(f"any model's loss {model}", triton_cross_entropy, model, shape)
    if not has_kernels(part):
        return part.line("fused kernels", missing="this build has none for this device")
    for function in (check, speed):
        for model, shape in shapes:
            for kind in (CrossEntropy, RmsNorm, Swiglu, Rope, NormedRope):
                part.guarded(f"{kind.__name__} {model}", function, kind, model, shape)


if __name__ == "__main__":
    main()
