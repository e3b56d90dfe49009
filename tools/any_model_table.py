#!/usr/bin/env python3
"""Tries every causal language model of the installed transformers with slimpack.torch.check.

    tools/any_model_table.py             writes the table of docs/any-model.md: minutes
    tools/any_model_table.py --compare   prints the rows that differ from the page's, and exits
                                         with 1 where there is one
"""

import re
import sys
import warnings
from pathlib import Path

from slimpack import InvalidInput
from slimpack.torch import check
from slimpack.torch.pipeline.refusals import random_settings
from transformers import CONFIG_MAPPING, logging
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "any-model.md"
BEGIN, END = "<!-- table of tools/any_model_table.py -->\n", "<!-- end of table -->\n"
EXACT = "exact"
_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
# Settings that published models have and that the default configurations of transformers lack.
SUPPLIED = {
    "cohere_compass_text": {
        "rope_parameters": {"full_attention": _ROPE, "sliding_attention": _ROPE}},
    "deepseek_v2": {"num_experts_per_tok": 6, "first_k_dense_replace": 1, "n_group": 8,
                    "topk_group": 3, "topk_method": "group_limited_greedy"},
    "dots1": {"n_routed_experts": 64, "num_experts_per_tok": 6, "n_group": 1, "topk_group": 1,
              "n_shared_experts": 2, "moe_intermediate_size": 128, "first_k_dense_replace": 1},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128, "num_experts": 16, "moe_topk": 2},
    "lfm2": {"full_attn_idxs": [2, 5, 8, 10, 12, 14]},
    "lfm2_moe": {"num_hidden_layers": 6, "layer_types": ["conv", "conv", "full_attention"] * 2},
    "minimax_m3_vl_text": {"num_hidden_layers": 4,
                           "layer_types": ["full_attention", *["minimax_m3_sparse"] * 3]},
    "ministral": {"head_dim": 128},
    "nemotron": {"num_key_value_heads": 8},
    "xmod": {"default_language": "en_XX"},
}


def families():
    """model_type of every causal language model."""
    return list(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def result_of(family):
    """The table's word for a family."""
    try:
        report = check(_config_of(family))
    except InvalidInput as refusal:
        return str(refusal).split("; ")[0].replace("|", "\\|")
    if not report.exact:
        return f"not exact: {report.reason}" if report.reason else "not exact"
    return EXACT if report.by_cache or report.with_states == report.layers else f"{EXACT} (keys from attention)"


def _config_of(family):
    """The default configuration, without dropout and as a decoder."""
    try:
        config = CONFIG_MAPPING[family](**SUPPLIED.get(family, {}))
    except Exception as error:  # of the family's own rules
        reason = type(error).__name__
        raise InvalidInput(f"its default configuration is invalid: {reason}") from error
    parts = [config]
    try:
        parts.append(config.get_text_config(decoder=True))
    except ValueError:  # it has several, and is refused
        pass
    for part in parts:
        for name in random_settings(part):
            setattr(part, name, 0.0)
        if hasattr(part, "is_decoder"):
            part.is_decoder = True
    return config


def row(family, result):
    """An exact family's name; of another one also why, as its refusal ends: "… fails on slices: its attention …"
    or "no small model … can be made (all are too large)"."""
    if result == EXACT:
        return f"`{family}`"
    why = re.fullmatch(r".*? \((.*)\)|.*?: (.*)", result)
    return f"`{family}` ({(why[1] or why[2]) if why else result})"


def rows(page):
    """The lines of the page's table."""
    return {line.rstrip(",.") for line in page.partition(BEGIN)[2].partition(END)[0].splitlines() if line.startswith("`")}


def table(results):
    """Exact families first."""
    exact = {family: result for family, result in sorted(results.items()) if result.startswith(EXACT)}
    others = {family: result for family, result in sorted(results.items()) if family not in exact}
    rows, refused = (",\n".join(row(*item) for item in part.items()) for part in (exact, others))
    return f"\n{len(exact)} of {len(results)} are exact:\n{rows}.\n\nThe others are refused, or not exact:\n{refused}.\n\n"


def main():
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()
    results = {}
    for family in families():
        results[family] = result_of(family)
        print(row(family, results[family]), flush=True)
    page = PAGE.read_text()
    if sys.argv[1:] != ["--compare"]:
        before, _, rest = page.partition(BEGIN)
        PAGE.write_text(before + BEGIN + table(results) + END + rest.partition(END)[2])
        return 0
    differing = sorted({row(*item) for item in results.items()} - rows(page))
    print("not on the page:" if differing else "the page has every row")
    print("\n".join(differing))
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
