"""Models that are more than language models are planned as the language model in them: its parameters
are those of transformers' whole model without its eyes and ears."""

import json

import pytest
import torch
import transformers
from decoder_test import ALL, SIZES, figures

UNSAID = object()  # a field that the file leaves to its default
MANY_HEADS = dict(num_attention_heads=16, num_key_value_heads=UNSAID)
# The whole model's type, the language model, and whether the whole model ties its embeddings.
WHOLE = [
    ("gemma3", "gemma3", True),
    ("gemma3", "gemma3", False),
    ("glm4v_moe", dict(model_type="glm4v_moe_text", n_routed_experts=6, num_experts_per_tok=2,
                       moe_intermediate_size=24), False),
    ("internvl", dict(model_type="qwen2"), False),
    ("kimi_k25", "deepseek-v3", False),
    ("lfm2_vl", "lfm2", True),
    ("llava", dict(model_type="llama", attention_bias=True), False),
    ("llava_next", dict(model_type="mistral", sliding_window=None), True),
    ("minicpmv4_6", "qwen3.5", False),
    ("mistral3", dict(model_type="mistral", head_dim=24, sliding_window=32), False),
    ("paligemma", "gemma", True),
    ("qwen2_vl", dict(model_type="qwen2_vl_text"), True),
    ("qwen2_vl", dict(model_type="qwen2_vl_text", **MANY_HEADS), False),
    ("qwen2_5_vl", dict(model_type="qwen2_5_vl_text"), True),
    ("qwen2_5_vl", dict(model_type="qwen2_5_vl_text", **MANY_HEADS), False),
    ("qwen3_5", "qwen3.5", True),
    ("qwen3_asr", dict(model_type="qwen3", head_dim=24), True),
    ("qwen3_vl", dict(model_type="qwen3_vl_text"), True),
    ("qwen3_vl", dict(model_type="qwen3_vl_text", head_dim=24, attention_bias=True), False),
    ("qwen3_vl_moe", dict(model_type="qwen3_vl_moe_text", num_experts=6, num_experts_per_tok=2,
                          moe_intermediate_size=24, mlp_only_layers=[1]), True),
    ("qwen3_vl_moe", dict(model_type="qwen3_vl_moe_text", num_attention_heads=32,
                          num_key_value_heads=UNSAID), False),
]
LANGUAGE = ("language_model.", "lm_head.")


@pytest.mark.parametrize("whole, text, tied", WHOLE)
def test_the_text_of_a_model_has_the_parameters_of_its_language_model_in_transformers(whole, text, tied,
                                                                                     tmp_path):
    text = SIZES | (ALL[text] if isinstance(text, str) else text)
    text = {key: value for key, value in text.items() if value is not UNSAID}
    assert_parameters_of_the_text(
        tmp_path, {"model_type": whole, "tie_word_embeddings": tied, "text_config": text})


@pytest.mark.parametrize("whole", ["qwen2_vl", "qwen2_5_vl"])
def test_a_text_whose_fields_are_at_the_top_has_its_parameters(whole, tmp_path):
    """Published files name the class of the whole model, and have no text_config."""
    stem = {"qwen2_vl": "Qwen2VL", "qwen2_5_vl": "Qwen2_5_VL"}[whole]
    assert_parameters_of_the_text(tmp_path, SIZES | {
        "model_type": whole, "architectures": [f"{stem}ForConditionalGeneration"],
        "vision_config": {}, "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}})


def assert_parameters_of_the_text(folder, config):
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    with torch.device("meta"):
        model = transformers.AutoModelForMultimodalLM.from_config(
            transformers.AutoConfig.from_pretrained(folder))
    parameters, *_ = figures(path)
    assert parameters == sum(p.numel() for name, p in model.named_parameters()
                             if name.removeprefix("model.").startswith(LANGUAGE))
