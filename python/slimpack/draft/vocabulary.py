"""The target's tokens that a head can guess, and a new head for a target."""

import numpy as np
import torch
from torch import nn

from slimpack.draft.config import HeadConfig, default_target_layers
from slimpack.draft.head import DraftHead

DEFAULT_SIZE = 8192  # tokens: lm_head is most of what a guess costs
_INITIAL_STD = 0.02


def most_frequent(counts, size):
    """The `size` tokens that come most often, ascending. Ties go to the lower token."""
    return np.sort(np.argsort(-np.asarray(counts), kind="stable")[:size])


def new_head(target, ids, seed, eagle31=False):
    """A head of the target's own widths that can guess the tokens `ids`, which ascend. Weights are
    random, but for those of lm_head, which are the target's."""
    of = target.config
    heads = of.num_attention_heads
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.manual_seed(seed)
        head = DraftHead(HeadConfig(
            hidden_size=target.hidden_size,
            intermediate_size=getattr(of, "intermediate_size", None) or 4 * target.hidden_size,
            num_attention_heads=heads,
            num_key_value_heads=getattr(of, "num_key_value_heads", None) or heads,
            head_dim=getattr(of, "head_dim", None) or target.hidden_size // heads,
            vocab_size=target.vocabulary, draft_vocab_size=len(ids),
            target_hidden_size=target.hidden_size,
            rms_norm_eps=getattr(of, "rms_norm_eps", HeadConfig.rms_norm_eps),
            rope_theta=_theta_of(of),
            max_position_embeddings=of.max_position_embeddings,
            target_layers=default_target_layers(target.layers),
            fc_norm=eagle31, norm_output=eagle31))
        for module in head.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=_INITIAL_STD)
    head.set_vocabulary(ids)
    with torch.no_grad():
        head.lm_head.weight.copy_(target.head_VE[torch.as_tensor(ids)])
    return head


def _theta_of(config):
    """Where the target's RoPE has several, as for windows, the head takes the usual one."""
    parameters = getattr(config, "rope_parameters", None) or {}
    theta = parameters.get("rope_theta", getattr(config, "rope_theta", None))
    return float(theta or HeadConfig.rope_theta)
