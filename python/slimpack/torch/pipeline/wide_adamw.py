"""AdamW in fp32 for a model in bf16.

A step of training changes a weight by less than bf16 can tell apart, and a sum of many small
gradients in bf16 stops growing. So parameters take their gradients in fp32, and the optimizer keeps
moments and a copy of the weights in fp32, from which it rounds the model's.
"""

import torch
from torch.distributed.tensor import DTensor
from torch.optim.adamw import adamw

from slimpack.torch.pipeline.gradients import local

_NARROW = (torch.bfloat16, torch.float16)


class WideAdamW(torch.optim.Optimizer):
    """torch.optim.AdamW; of parameters in bf16 as above, from the moment on that it is made. Its
    states are tensors with the parameters' shapes, and on GPUs it is one kernel for all of them."""

    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, *,
                 offload=False):
        """offload: the states are in host memory. There processors update one parameter after the
        other, while the next one's gradient comes from the GPU; so pinned memory holds a few
        parameters at a time. Checkpoints load with and without.
        """
        super().__init__(parameters, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))
        self._offload = offload
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
            if self._offload:
                self._update_on_host(trained, group)
                continue
            for shares in (True, False):  # no operation takes shares and whole tensors together
                self._update([p for p in trained if isinstance(p, DTensor) == shares], group)
        return loss

    def device_of_states(self, parameter):
        return torch.device("cpu") if self._offload else parameter.device

    def _update(self, parameters, group):
        if not parameters:
            return
        states = [self._state_of(parameter) for parameter in parameters]
        weights = [state.get("weight", parameter)
                   for state, parameter in zip(states, parameters, strict=True)]
        gradients = [parameter.grad.to(weight.dtype)
                     for weight, parameter in zip(weights, parameters, strict=True)]
        _adamw(weights, gradients, states, group, fused=_is_fused(parameters[0]))
        for parameter, weight in zip(parameters, weights, strict=True):
            if weight is not parameter:
                parameter.copy_(weight)

    def _update_on_host(self, parameters, group):
        following = iter(parameters[1:])
        coming = _on_its_way(parameters[0].grad) if parameters else None
        for parameter in parameters:
            gradient, wait_for_gradient = coming
            coming = next((_on_its_way(p.grad) for p in following), None)
            state = {name: local(tensor) for name, tensor in self._state_of(parameter).items()}
            weight = state.get("weight")
            if weight is None:  # the parameter is as wide
                weight, wait_for_weight = _on_its_way(parameter)
                wait_for_weight()
            wait_for_gradient()
            _adamw([weight], [gradient.to(weight.dtype)], [state], group,
                   fused=_is_fused(parameter))
            _hand_back(weight, local(parameter))

    def _state_of(self, parameter):
        state, device = self.state[parameter], self.device_of_states(parameter)
        if not state:
            wide = parameter.detach().to(device)
            if parameter.dtype in _NARROW:
                wide = state["weight"] = wide.float()
            state["step"] = torch.zeros((), device="cpu")
            state["exp_avg"], state["exp_avg_sq"] = map(torch.zeros_like, (wide, wide))
        if _is_fused(parameter):  # the kernel counts; a checkpoint's number is in the host's memory
            state["step"] = state["step"].to(device, torch.float32)
        return state


def _adamw(weights, gradients, states, group, *, fused):
    beta1, beta2 = group["betas"]
    adamw(weights, gradients, [state["exp_avg"] for state in states],
          [state["exp_avg_sq"] for state in states], [], [state["step"] for state in states],
          fused=fused, amsgrad=False, beta1=beta1, beta2=beta2, lr=group["lr"],
          weight_decay=group["weight_decay"], eps=group["eps"], maximize=False)


def _is_fused(tensor):
    """Whether a parameter's update is one kernel, on its GPU or on processors."""
    return tensor.is_cuda


def _on_its_way(tensor):
    """(what becomes a tensor's copy in host memory, a function that waits for it). Nothing is copied
    that is there."""
    tensor = local(tensor.detach())
    if not tensor.is_cuda:
        return tensor, lambda: None
    copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    copy.copy_(tensor, non_blocking=True)
    arrived = torch.cuda.Event()
    arrived.record()
    return copy, arrived.synchronize


def _hand_back(weight, parameter):
    """Rounds a weight in host memory to the parameter's dtype, and copies it to its device."""
    if weight.data_ptr() == parameter.data_ptr():
        return
    rounded = torch.empty(weight.shape, dtype=parameter.dtype, pin_memory=parameter.is_cuda)
    parameter.copy_(rounded.copy_(weight), non_blocking=True)
