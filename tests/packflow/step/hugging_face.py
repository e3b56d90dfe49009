"""The reference: Hugging Face models with autograd, each document by itself."""
from unittest import mock

import torch
from torch import nn
from transformers import (AutoModelForCausalLM, LlamaConfig, MistralConfig, MixtralConfig, OlmoeConfig,
                          Qwen2Config, Qwen3Config, Qwen3MoeConfig, modeling_rope_utils)
from transformers.core_model_loading import revert_weight_conversion
from transformers.models.llama import modeling_llama
from transformers.models.mistral import modeling_mistral
from transformers.models.qwen2 import modeling_qwen2
from transformers.models.qwen3 import modeling_qwen3

CONFIGS = dict(llama=LlamaConfig, qwen2=Qwen2Config, qwen3=Qwen3Config, mistral=MistralConfig,
               mixtral=MixtralConfig, qwen3_moe=Qwen3MoeConfig, olmoe=OlmoeConfig)
MODULES = (modeling_llama, modeling_qwen2, modeling_qwen3, modeling_mistral)


class Fp64Norm(nn.Module):
    """RMSNorm without the casts to fp32 that Hugging Face keeps even in a double model."""

    def __init__(self, norm):
        super().__init__()
        self.weight, self.eps = norm.weight, norm.variance_epsilon

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class Fp64Router(nn.Module):
    """The router of a family with experts without its casts to fp32."""

    def __init__(self, router):
        super().__init__()
        self.weight, self.top_k = router.weight, router.top_k
        self.normalizes = getattr(router, "norm_topk_prob", True)  # Mixtral's always does

    def forward(self, x):
        logits = x.reshape(-1, x.shape[-1]) @ self.weight.T
        weights, experts = logits.softmax(-1).topk(self.top_k, -1)
        if self.normalizes:
            weights = weights / weights.sum(-1, keepdim=True)
        return logits, weights, experts


class DoubleTorch:
    """torch for functions that ask for fp32 by name: they compute in fp64."""

    float = float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def fp64_frequencies(config):
    """Inverse frequencies and the factor of cos and sin, by transformers' formulas in fp64."""
    rope = config.rope_parameters
    if rope["rope_type"] != "default":
        with mock.patch.object(modeling_rope_utils, "torch", DoubleTorch()):
            return modeling_rope_utils.ROPE_INIT_FUNCTIONS[rope["rope_type"]](config)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return rope["rope_theta"] ** -(torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim), 1.0


class Fp64Rotary(nn.Module):
    """Rotary tables in fp64."""

    def __init__(self, config):
        super().__init__()
        self.inverse, self.factor = fp64_frequencies(config)

    def forward(self, x, position_ids):
        angles = position_ids[..., None].double() * self.inverse
        angles = torch.cat([angles, angles], -1)
        return self.factor * angles.cos(), self.factor * angles.sin()


def make_model(family, seed, dtype, **sizes):
    torch.manual_seed(seed)
    config = CONFIGS[family](use_cache=False, attention_dropout=0.0, **sizes)
    config._attn_implementation = "sdpa"
    config._experts_implementation = "eager"  # grouped products know no fp64
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():  # norms and biases start at 1 and 0: make their gradients visible
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(0.2 * torch.randn_like(p))
            else:
                p.mul_(4)
    return model.to(dtype)


def use_fp64_casts(model):
    """Replaces the modules of a double model that round to fp32."""
    model.model.rotary_emb = Fp64Rotary(model.config)
    for name, module in list(model.named_modules()):
        parent = model.get_submodule(name.rpartition(".")[0])
        if type(module).__name__.endswith("RMSNorm"):
            setattr(parent, name.rpartition(".")[2], Fp64Norm(module))
        if type(module).__name__.endswith("TopKRouter"):
            setattr(parent, name.rpartition(".")[2], Fp64Router(module))
    return model


def public(model, tensors):
    """Tensors by the names of a model's parameters, as transformers writes them into files: experts one
    by one."""
    return {k: v.contiguous() for k, v in revert_weight_conversion(model, dict(tensors)).items()}


def gradients(model):
    return public(model, {name: p.grad for name, p in model.named_parameters()})


def weighted_loss_and_backward(model, sequences, weights, mean="token"):
    """The mean of next-token losses by the weights of their tokens, 0 = no target; accumulates gradients.

    mean: "token" = over all targets, "document" = over sequences with a target of their means.
    """
    weights = [torch.tensor(of_one, dtype=torch.float64)[1:] for of_one in weights]
    if mean == "document":
        weights = [of_one / of_one.sum() if of_one.any() else of_one for of_one in weights]
    all_together = sum(float(of_one.sum()) for of_one in weights)
    total = 0.0
    for tokens, of_one in zip(sequences, weights, strict=True):
        ids = torch.tensor(tokens)
        losses = nn.functional.cross_entropy(model(input_ids=ids[None]).logits[0, :-1], ids[1:], reduction="none")
        loss = (losses * of_one).sum() / all_together
        loss.backward()
        total += loss.item()
    return total


def loss_and_backward(model, sequences):
    """Sum of next-token losses over the count of targets of all sequences; accumulates gradients."""
    targets = max(sum(len(s) - 1 for s in sequences), 1)
    total = 0.0
    for tokens in sequences:
        ids = torch.tensor([tokens])
        logits = model(input_ids=ids).logits
        if logits.dtype == torch.bfloat16:
            logits = logits.float()
        loss = nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:], reduction="sum") / targets
        if len(tokens) < 2:
            loss = logits.sum() * 0.0
        loss.backward()
        total += loss.item()
    return total
