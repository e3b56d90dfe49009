"""Models that are more than language models are planned as the language model in them: its parameters
are those of transformers' whole model without its eyes and ears."""

import json

import pytest
import torch
import transformers
from decoder_test import ALL, SIZES, figures

# The whole model's type, the language model, and whether the whole model ties its embeddings.
WHOLE = [
    ("gemma3", "gemma3", True),
    ("gemma3", "gemma3", False),
    ("internvl", dict(model_type="qwen2"), False),
    ("kimi_k25", "deepseek-v3", False),
    ("lfm2_vl", "lfm2", True),
    ("llava", dict(model_type="llama", attention_bias=True), False),
    ("llava_next", dict(model_type="mistral", sliding_window=None), True),
    ("minicpmv4_6", "qwen3.5", False),
    ("mistral3", dict(model_type="mistral", head_dim=24, sliding_window=32), False),
    ("paligemma", "gemma", True),
    ("qwen3_5", "qwen3.5", True),
    ("qwen3_asr", dict(model_type="qwen3", head_dim=24), True),
]
LANGUAGE = ("language_model.", "lm_head.")


@pytest.mark.parametrize("whole, text, tied", WHOLE)
def test_the_text_of_a_model_has_the_parameters_of_its_language_model_in_transformers(whole, text, tied,
                                                                                     tmp_path):
    text = SIZES | (ALL[text] if isinstance(text, str) else text)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": whole, "tie_word_embeddings": tied, "text_config": text}))
    with torch.device("meta"):
        model = transformers.AutoModelForMultimodalLM.from_config(
            transformers.AutoConfig.from_pretrained(tmp_path))
    parameters, *_ = figures(path)
    assert parameters == sum(p.numel() for name, p in model.named_parameters()
                             if name.removeprefix("model.").startswith(LANGUAGE))
