"""AdamW in fp32 for a model in bf16.

A step of training changes a weight by less than bf16 can tell apart, and a sum of many small
gradients in bf16 stops growing. So parameters take their gradients in fp32, and the optimizer keeps
moments and a copy of the weights in fp32, from which it rounds the model's.
"""

import torch
from torch.distributed.tensor import DTensor
from torch.optim.adamw import adamw

_NARROW = (torch.bfloat16, torch.float16)


class WideAdamW(torch.optim.Optimizer):
    """torch.optim.AdamW; of parameters in bf16 as above, from the moment on that it is made. Its
    states are tensors with the parameters' shapes, and on GPUs it is one kernel for all of them."""

    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        super().__init__(parameters, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))
        for parameter in (p for group in self.param_groups for p in group["params"]):
            # FSDP2 sums in fp32 by itself and hands over what it has rounded once.
            if parameter.dtype in _NARROW and not isinstance(parameter, DTensor):
                gradient, parameter.grad = parameter.grad, None
                parameter.grad_dtype = torch.float32
                parameter.grad = None if gradient is None else gradient.float()

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            trained = [p for p in group["params"] if p.grad is not None]
            for shares in (True, False):  # no operation takes shares and whole tensors together
                self._update([p for p in trained if isinstance(p, DTensor) == shares], group)
        return loss

    def _update(self, parameters, group):
        if not parameters:
            return
        states = [self._state_of(parameter) for parameter in parameters]
        weights = [state.get("weight", parameter)
                   for state, parameter in zip(states, parameters, strict=True)]
        gradients = [parameter.grad.to(weight.dtype)
                     for weight, parameter in zip(weights, parameters, strict=True)]
        beta1, beta2 = group["betas"]
        adamw(weights, gradients, [state["exp_avg"] for state in states],
              [state["exp_avg_sq"] for state in states], [], [state["step"] for state in states],
              fused=_is_fused(parameters[0]), amsgrad=False, beta1=beta1, beta2=beta2, lr=group["lr"],
              weight_decay=group["weight_decay"], eps=group["eps"], maximize=False)
        for parameter, weight in zip(parameters, weights, strict=True):
            if weight is not parameter:
                parameter.copy_(weight)

    def _state_of(self, parameter):
        state = self.state[parameter]
        if not state:
            wide = parameter
            if parameter.dtype in _NARROW:
                wide = state["weight"] = parameter.detach().float()
            state["step"] = torch.zeros((), device="cpu")
            state["exp_avg"], state["exp_avg_sq"] = map(torch.zeros_like, (wide, wide))
        if _is_fused(parameter):  # the kernel counts; a checkpoint's number is in the host's memory
            state["step"] = state["step"].to(parameter.device, torch.float32)
        return state


def _is_fused(tensor):
    return tensor.is_cuda
