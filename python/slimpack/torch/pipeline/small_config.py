"""Configurations of small models that have every feature of a large one: to try a family.

1. Layers: one of every kind that the configuration tells apart, and at least MIN_LAYERS.
2. Windows, ropes, low ranks, groups of experts: small enough that short documents go past them.
3. Widths: as small as the family's own rules allow, which are found by trying (small_model.py).
"""

from slimpack.torch.pipeline.language_model import is_part, with_part

MIN_LAYERS = 4
WINDOW = 6  # tokens
# Names of the same thing in different families.
_WINDOWS = ("sliding_window", "sliding_window_size", "attention_chunk_size", "window_size",
            "local_attention", "attention_window_size", "index_topk", "keep_window_size")
_LEADING_LAYERS = ("first_k_dense_replace", "num_dense_layers", "max_window_layers",
                   "moe_layer_start_index", "moe_layer_end_index")
_MOST = {  # what a number is at most
    "vocab_size": 97, "unpadded_vocab_size": 97, "vocab_size_per_layer_input": 97,
    "max_position_embeddings": 256, "n_positions": 256, "max_target_positions": 256,
    "max_seq_len": 256, "n_ctx": 256, "floor_scale": 16,
    "num_experts": 8, "num_local_experts": 8, "n_routed_experts": 8, "moe_num_experts": 8,
    "zero_expert_num": 4, "n_group": 2, "num_expert_group": 2, "topk_group": 1,
    "num_experts_per_tok": 2, "num_experts_per_token": 2, "moe_topk": 2, "moe_k": 2,
    "index_n_heads": 48,  # with few of them scores are 0 of many keys, which tie
    "n_shared_experts": 1, "num_shared_experts": 1, "moe_num_shared_experts": 1,
    "log_scaling_n_floor": 16, "rel_extent": 16, "index_topk_blocks": 2, "index_block_size": 4,
    "chunk_size": 16, "mamba_chunk_size": 16, "block_size": 16,
    "attn_layer_period": 2, "attn_layer_offset": 1,
}
_MOST_NARROW = {
    "head_dim": 8, "swa_head_dim": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 12, "qk_head_dim": 16, "swa_v_head_dim": 12, "kv_channels": 8,
    "index_head_dim": 8, "rotary_dim": 4,
    "q_lora_rank": 12, "kv_lora_rank": 16, "o_lora_rank": 12, "router_hidden_size": 16,
    "attention_head_dim": 8, "dim_head": 8, "hidden_size_per_layer_input": 8,
    # Layers with a state: 8 heads of 8 are twice the hidden size, as their families want it.
    "linear_key_head_dim": 8, "linear_value_head_dim": 12, "linear_head_dim": 8,
    "linear_num_heads": 4, "linear_num_value_heads": 4, "mamba_n_heads": 8, "mamba_num_heads": 8,
    "mamba_d_head": 8, "mamba_head_dim": 8, "mamba_d_ssm": 64, "mamba_n_groups": 2,
    "mamba_d_state": 6, "ssm_state_size": 6, "state_size": 6, "mamba_dt_rank": 4,
    "time_step_rank": 4,
}
_INNER = ("intermediate_size", "ffn_dim", "ffn_hidden_size", "n_inner", "dim_ff", "dff",
          "intermediate_size_mlp")  # ends of names
_INNER_WIDTH = 24
_OF_WIDTH = ("_size", "_dim", "d_model", "_embd")  # ends of names of what may be the hidden size
_FEW_HEADS = 4
_HEADS = ("num_attention_heads", "n_heads", "swa_num_attention_heads", "encoder_attention_heads",
          "decoder_attention_heads")
_KEY_HEADS = ("num_key_value_heads", "num_kv_heads", "swa_num_key_value_heads")
_TOKENS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "sep_token_id",
           "mask_token_id", "cls_token_id", "image_token_id", "audio_token_id", "video_token_id")
# Kinds of widths that a family may insist on, in the order in which they are tried.
NARROW, OWN_HEADS, OWN_WIDTHS = "narrow", "own heads", "own widths"
WIDTHS = (NARROW, OWN_HEADS, OWN_WIDTHS)


def small_config(config, widths):
    """A configuration of the same family with fewer layers and the given kind of widths; of a model of
    more than text only the language model is small."""
    if is_part(config):
        return with_part(config, small_config(config.get_text_config(), widths))
    values = config.to_dict()
    for name in ("transformers_version", "_name_or_path", "dtype", "quantization_config"):
        values.pop(name, None)
    names = getattr(config, "attribute_map", {})
    _keep_layers(values, names.get("num_hidden_layers", "num_hidden_layers"))
    _limit(values, _MOST)
    for name in _WINDOWS:
        _limit(values, {name: WINDOW})
    if widths == NARROW:
        for of in (values.get("per_layer_config") or {}).values():
            _narrow_heads(of, values)
        _narrow_heads(values, {})
        _narrow(values, names)
    elif widths == OWN_HEADS:
        _fewer_heads(values, names)
    _shrink_ropes(values)
    for number, name in enumerate(_TOKENS):
        if isinstance(values.get(name), (int, list)):
            values[name] = min(number, 2)
    return type(config).from_dict(values)


def _limit(values, most):
    for name, limit in most.items():
        if _is_number(values.get(name)) and values[name] > limit:
            values[name] = limit


def _is_number(value):
    return isinstance(value, int) and not isinstance(value, bool)


def _keep_layers(values, count_name):
    """Keeps the first layer of every kind, and the first ones up to MIN_LAYERS."""
    count = values.get(count_name)
    if not _is_number(count):
        return
    listed = [name for name, value in values.items() if _lists_layers(name, value, count)]
    by_layer = [name for name, value in values.items()
                if isinstance(value, (list, tuple)) and len(value) == count and name not in listed]
    leading = [name for name in _LEADING_LAYERS if _is_number(values.get(name))]

    def kind(layer):
        return repr([[values[name][layer] for name in by_layer],
                     [layer in values[name] for name in listed],
                     [layer < values[name] for name in leading]])

    first = {}
    for layer in range(count):
        first.setdefault(kind(layer), layer)
    kept = set(first.values())
    others = [layer for layer in range(count) if layer not in kept]
    kept = sorted(kept.union(others[:max(0, MIN_LAYERS - len(kept))]))
    for name in by_layer:
        values[name] = [values[name][layer] for layer in kept]
    for name in listed:
        values[name] = [i for i, layer in enumerate(kept) if layer in values[name]]
    for name in leading:
        values[name] = sum(layer < values[name] for layer in kept)
    special = values.get("per_layer_config") or {}
    if special:
        values["per_layer_config"] = {i: of for i, layer in enumerate(kept)
                                      for key, of in special.items() if int(key) == layer}
    values[count_name] = len(kept)
    _limit(values, {"encoder_layers": len(kept), "decoder_layers": len(kept)})


def _lists_layers(name, value, count):
    """Whether a value names layers by their numbers."""
    return (isinstance(value, (list, tuple)) and name.endswith(("layers", "_idxs", "layer_ids"))
            and all(_is_number(layer) and 0 <= layer < count for layer in value)
            and list(value) == sorted(set(value)))


def _narrow_heads(values, others):
    """Narrows what one layer, or all, have of a head. others: what a layer has as all have."""
    def whole(of):
        """The width of a head of two parts that are rotated and not, in some families."""
        return (of.get("qk_nope_head_dim") or 0) + (of.get("qk_rope_head_dim") or 0)

    in_two = whole(others | values) == (others | values).get("head_dim")
    _limit(values, _MOST_NARROW)
    if in_two:
        values["head_dim"] = whole({name: min(value, _MOST_NARROW.get(name, value)) for name, value
                                    in (others | values).items()
                                    if name in ("qk_nope_head_dim", "qk_rope_head_dim")})
    if others:  # a layer's own
        _limit(values, dict.fromkeys((*_HEADS, *_KEY_HEADS), _FEW_HEADS))


def _narrow(values, names):
    """4 heads of 8, and 2 key heads where there were fewer than query heads."""
    heads = _fewer_heads(values, names, keep_width=False)
    width_name = names.get("hidden_size", "hidden_size")
    width = values.get(width_name)
    if not _is_number(width):
        return
    for name, value in values.items():
        if name != width_name and value == width and name.endswith(_OF_WIDTH):
            values[name] = heads * 8
        elif name.endswith(_INNER) and _is_number(value) and value:
            values[name] = _INNER_WIDTH
    values[width_name] = heads * 8
    _fewer_heads_of_states(values)


def _fewer_heads_of_states(values):
    """Heads of layers with a state, in groups as before."""
    keys, of_values = (values.get(f"linear_num_{name}_heads") for name in ("key", "value"))
    if _is_number(keys):
        values["linear_num_key_heads"] = min(keys, of_values if keys >= of_values else 2)
    if "state_size" in values:
        _limit(values, {"num_heads": 8})
    if not {"state_size", "ssm_state_size"}.isdisjoint(values):
        _limit(values, {"n_groups": 2})


def _fewer_heads(values, names, keep_width=True):
    """Fewer heads, in groups as before. Returns their number.

    keep_width: the hidden size shrinks so that a head keeps its own.
    """
    heads_names = {names.get(name, name) for name in _HEADS}
    key_names = {names.get(name, name) for name in _KEY_HEADS}
    before = values.get(names.get("num_attention_heads", "num_attention_heads"), 4)
    heads = min(before, _FEW_HEADS) if before % 2 == 0 else before
    for name in heads_names:
        _limit(values, {name: heads})
    for name in key_names:
        if _is_number(values.get(name)):
            grouped = min(values[name], max(heads // 2, 1))
            values[name] = heads if values[name] >= before else grouped
    width_name = names.get("hidden_size", "hidden_size")
    if keep_width and _is_number(values.get(width_name)) and values[width_name] % before == 0:
        head = values[width_name] // before
        values[width_name] = head * heads
    return heads


def _shrink_ropes(values):
    """Ropes that change with the document's length do so within short documents."""
    _limit(values, {"original_max_position_embeddings": 16})
    ropes = [values.get("rope_parameters"), values.get("rope_scaling")]
    ropes += [rope for of in ropes if isinstance(of, dict) for rope in of.values()]
    for rope in ropes:
        if isinstance(rope, dict):
            _limit(rope, {"original_max_position_embeddings": 16})
            _fit_factors(rope, values)


def _fit_factors(rope, values):
    """Factors by frequency are as many as a head has frequencies."""
    heads = max(values.get("num_attention_heads", 1), 1)
    head = values.get("head_dim") or values.get("hidden_size", 0) // heads
    rotated = rope.get("partial_rotary_factor", values.get("partial_rotary_factor", 1.0))
    frequencies = int(head * rotated) // 2
    for name in ("short_factor", "long_factor"):
        if isinstance(rope.get(name), list):
            rope[name] = rope[name][:frequencies]
    if isinstance(rope.get("mrope_section"), list):  # frequencies by time, height and width
        share = frequencies // 3
        rope["mrope_section"] = [frequencies - 2 * share, share, share]
