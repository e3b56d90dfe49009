"""Attention of slices, with the model's own rules and arithmetic.

transformers asks two registries by name: for the mask and for the attention function. Here the
"mask" is the family's rule itself, so that it can be asked about positions in a document, and the
function runs slice by slice:

- one call for all slices of a MicroPack, where torch's kernel for sequences of several lengths can
  (variable_length.py);
- slice by slice with torch's flash attention for CPUs, prefix and own tokens apart
  (prefix_attention.py);
- torch's scaled_dot_product_attention, where attention is softmax(q k) v;
- else the family's own function.

In the last two, long slices run in blocks of queries, which backward computes again. So only the
scores of one block exist at a time.
"""

import sys

import torch
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from slimpack.torch.pipeline import prefix_attention, variable_length
from slimpack.torch.pipeline.parts import blocks_of

NAME = "slimpack_slices"
SCORES_AT_ONCE = 1 << 26
# Arguments that model families pass to attention and that say nothing new about a slice.
_SAID_OTHERWISE = {"dropout", "scaling", "sliding_window", "position_ids", "is_causal", "use_cache",
                   "output_attentions", "output_hidden_states", "output_router_logits",
                   "return_dict", "cache_position", "position_embeddings", "past_key_values"}
_FAR = 1 << 16  # a position that is asked about every token before it
_FARTHEST = 1 << 40  # a position behind every window, asked about some tokens before it


class MaskRule:
    """A rule that says which keys a token sees: rule(batch, head, token, key token). In a model's
    hands it is a tensor that it may slice and convert."""

    def __init__(self, rule, dtype=None):
        self.rule, self._dtype = rule, dtype

    def __getitem__(self, index):
        return self

    def to(self, dtype):
        return MaskRule(self.rule, dtype)

    def tensor(self, queries, keys, dtype):
        """Returns what transformers' eager attention adds to scores, [1, 1, queries, keys], converted as the
        model's code has asked. dtype: of the hidden states."""
        bias_QK = _additive(self.sees(queries, keys), dtype)
        return bias_QK[None, None].to(self._dtype or dtype)

    def sees(self, queries, keys):
        """Bool, [queries, keys]."""
        return self.rule(0, 0, queries[:, None], keys[None]).expand(len(queries), len(keys))

    def reach(self):
        """The Reach of this rule."""
        near = _reach_of(_FAR, self._seen_of_all)
        sees_all_near = near.known and near.window is None
        return _reach_of(_FARTHEST, self._seen_of_some) if sees_all_near else near

    def _seen_of_all(self, query):
        """How many tokens up to itself a token sees; None where it sees one before a hidden one."""
        visible = self._sees_at(query, torch.arange(query, -1, -1, device="cpu"))
        count = int(visible.sum())
        return count if visible[:count].all() else None

    def _seen_of_some(self, query):
        """Finds what _seen_of_all finds, for a position too far to ask about every token: asks
        about tokens at distances that double, then by bisection."""
        distances = [0, *(1 << power for power in range(query.bit_length() - 1)), query]
        visible = self._sees_at(query, query - torch.tensor(distances, device="cpu"))
        count = int(visible.sum())
        if not count or not visible[:count].all():
            return None
        if count == len(distances):
            return query + 1
        seen, hidden = distances[count - 1], distances[count]
        while hidden - seen > 1:
            middle = (seen + hidden) // 2
            if self._sees_at(query, torch.tensor([query - middle], device="cpu"))[0]:
                seen = middle
            else:
                hidden = middle
        return seen + 1

    def _sees_at(self, query, keys):
        return self.sees(torch.tensor([query], device="cpu"), keys)[0]


def _reach_of(end, seen_from):
    """The Reach of a rule, by how many tokens the last two before `end` see."""
    seen = [seen_from(query) for query in (end - 1, end - 2)]
    if seen == [end, end - 1]:
        return Reach(None, True)
    return Reach(None, False) if None in seen or seen[0] != seen[1] else Reach(seen[0], True)


class Reach:
    """The tokens that a token of a layer sees: window tokens, itself included; None = all before
    it, or a rule that only the mask knows, where known is false."""

    def __init__(self, window, known):
        self.window, self.known = window, known


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
    reaches: by layer.
    """

    def __init__(self, by_cache, reaches):
        self.by_cache, self._reaches = by_cache, reaches
        self.windows = {layer: reach.window for layer, reach in reaches.items()}

    def run(self, module, layer, parts, query_1HTD, key_1HTD, value_1HTD, mask, options):
        """Slice by slice; Parts say where. Returns [1, T, H, D]."""
        reach, plain = self._reaches[layer], _is_plain(module, options)
        tensors = query_1HTD, key_1HTD, value_1HTD
        known = plain and reach.known
        if known and variable_length.can_run(*tensors):
            return variable_length.run(parts, *tensors, options.get("scaling"), reach.window)
        function = sdpa_attention_forward if plain else _own_function(module)
        outputs = []
        for part in parts:
            of_part = part.of(*tensors)
            if known and part.sees_all_before(reach.window) and prefix_attention.can_run(*of_part):
                outputs.append(prefix_attention.run(*of_part, options.get("scaling")))
            elif known and part.sees_itself_alone(reach.window):
                outputs.append(function(module, *of_part, None, **options | {"is_causal": True})[0])
            else:
                outputs += _in_blocks(function, module, part, reach.window, tensors, mask, options)
        return torch.cat(outputs, 1)


def _in_blocks(function, module, part, window, tensors, mask, options):
    """A part's outputs, by block of queries."""
    heads = 1 if function is sdpa_attention_forward else tensors[0].shape[1]
    blocks = blocks_of(part, SCORES_AT_ONCE // heads, window)
    if len(blocks) == 1:
        return [_run_masked(function, module, part, tensors, mask, options)]
    return [checkpoint(_run_masked, function, module, block, tensors, mask, options,
                       use_reentrant=False, preserve_rng_state=False) for block in blocks]


def _run_masked(function, module, part, tensors, mask, options):
    positions = torch.arange(part.first_key, part.end, device=tensors[0].device)
    sees_QK = _sees(mask, positions[part.begin - part.first_key:], positions, options)
    if function is not sdpa_attention_forward:
        sees_QK = _additive(sees_QK, tensors[0].dtype)
    return function(module, *part.of(*tensors), sees_QK[None, None], **options)[0]


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
