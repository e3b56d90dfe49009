"""Attention of slices, with the model's own rules and arithmetic.

transformers asks two registries by name: for the mask and for the attention function. Here the "mask"
is the family's rule itself, so that it can be asked about positions in a document, and the function
runs slice by slice.
"""

import sys

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

NAME = "slimpack_slices"
# What families pass that says nothing new about a slice.
_SAID_OTHERWISE = {"dropout", "scaling", "sliding_window", "position_ids", "is_causal", "use_cache",
                   "output_attentions", "output_hidden_states", "output_router_logits", "return_dict",
                   "cache_position", "position_embeddings", "past_key_values"}
_FAR = 1 << 16  # a position behind every window that counts as one


class MaskRule:
    """Which keys a token sees: rule(batch, head, token, key token). In a model's hands it is a tensor
    that it may slice."""

    def __init__(self, rule):
        self.rule = rule

    def __getitem__(self, index):
        return self

    def sees(self, queries, keys):
        """Bool, [queries, keys]."""
        return self.rule(0, 0, queries[:, None], keys[None]).expand(len(queries), len(keys))

    def window(self):
        """How many tokens a token sees, itself included, where that is the same number everywhere; None
        = all before it, or another rule."""
        keys = torch.arange(_FAR)
        seen = []
        for query in (_FAR - 1, _FAR - 2):
            visible = self.sees(torch.tensor([query]), keys)[0]
            seen.append(int(visible.sum()))
            if seen[-1] == query + 1 or not visible[query + 1 - seen[-1]:query + 1].all():
                return None
        return seen[0] if seen[0] == seen[1] else None


def _mask(mask_function=None, **_):
    return MaskRule(mask_function)


@torch.compiler.disable
def _attend(module, query, key, value, attention_mask, **options):
    layer, running = module.slimpack_layer
    return running.work.attend(module, layer, query, key, value, attention_mask, options), None


AttentionMaskInterface.register(NAME, _mask)
AttentionInterface.register(NAME, _attend)


class Attention:
    """How a stage's layers attend.

    by_cache: the model hands keys and values to its cache; otherwise they are gathered where it
        attends.
    windows: by layer how many tokens a token sees; None = all before it, or a rule that only the mask
        knows.
    """

    def __init__(self, by_cache, windows):
        self.by_cache, self.windows = by_cache, windows

    def run(self, module, parts, query_1HTD, key_1HTD, value_1HTD, mask, options):
        """Slice by slice; Parts say where. Returns [1, T, H, D]."""
        function = sdpa_attention_forward if _is_plain(module, options) else _own_function(module)
        outputs = []
        for part in parts:
            count, keys = part.end - part.begin, part.end - part.first_key
            positions = torch.arange(part.first_key, part.end, device=query_1HTD.device)
            sees_QK = _sees(mask, positions[-count:], positions, options)
            if function is not sdpa_attention_forward:
                sees_QK = _additive(sees_QK, query_1HTD.dtype)
            outputs.append(function(
                module, query_1HTD[:, :, part.query_row:part.query_row + count],
                key_1HTD[:, :, part.key_row:part.key_row + keys],
                value_1HTD[:, :, part.key_row:part.key_row + keys], sees_QK[None, None], **options)[0])
        return torch.cat(outputs, 1)


def _is_plain(module, options):
    """Whether attention is softmax(q k) v, which torch has kernels for."""
    unusual = {name for name, value in options.items() if value is not None} - _SAID_OTHERWISE
    return module.slimpack_sdpa and not unusual and not hasattr(module, "sinks")


def _own_function(module):
    """The family's arithmetic: soft-capping, sinks and what else it has."""
    return sys.modules[type(module).__module__].eager_attention_forward


def _sees(mask, queries, keys, options):
    if mask is not None:
        return mask.sees(queries, keys)
    sees_QK = keys[None] <= queries[:, None]
    if options.get("sliding_window") is not None:
        sees_QK = sees_QK & (keys[None] > queries[:, None] - options["sliding_window"])
    return sees_QK


def _additive(sees_QK, dtype):
    bias_QK = torch.zeros(sees_QK.shape, dtype=dtype, device=sees_QK.device)
    return bias_QK.masked_fill_(~sees_QK, torch.finfo(dtype).min)
