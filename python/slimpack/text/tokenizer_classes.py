"""Special tokens that transformers takes from a tokenizer's class where no file names them."""

END_OF_TEXT = "<|endoftext|>"
TOKENS = {
    "LlamaTokenizer": {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"},
    "Qwen2Tokenizer": {"unk_token": END_OF_TEXT, "eos_token": END_OF_TEXT, "pad_token": END_OF_TEXT},
    "GPT2Tokenizer": {"unk_token": END_OF_TEXT, "bos_token": END_OF_TEXT, "eos_token": END_OF_TEXT},
    "GemmaTokenizer": {"unk_token": "<unk>", "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>",
                       "mask_token": "<mask>"},
}
# The class that transformers has for a model_type; PLAIN has no tokens of its own.
PLAIN = "TokenizersBackend"
CLASS_OF_MODEL = {
    **dict.fromkeys(("qwen2", "qwen2_moe", "qwen3", "qwen3_moe"), "Qwen2Tokenizer"),
    **dict.fromkeys(("gemma", "gemma2", "gemma3", "gemma3_text"), "GemmaTokenizer"),
    **dict.fromkeys(("gpt2", "gpt_neo", "starcoder2"), "GPT2Tokenizer"),
    **dict.fromkeys(("mistral", "mixtral", "phi3", "olmo2", "granite"), PLAIN),
}
MODELS_WITH_WRONG_CLASSES = ("qwen2",)  # what their files name is not taken


def class_tokens(tokenizer_config, model_config, tokenizer):
    """By name, the tokens of the class that transformers would make."""
    return TOKENS.get(_class_of(tokenizer_config, model_config, tokenizer), {})


def _class_of(tokenizer_config, model_config, tokenizer):
    model = model_config.get("model_type")
    usual = CLASS_OF_MODEL.get(model)
    named = tokenizer_config.get("tokenizer_class") or model_config.get("tokenizer_class")
    if not isinstance(named, str):
        return usual
    named = named.removesuffix("Fast")
    if named == "LlamaTokenizer" and maps_bytes(tokenizer) and model not in MODELS_WITH_WRONG_CLASSES:
        return PLAIN
    if usual is None or named == usual:
        return named
    if usual == PLAIN:
        return PLAIN
    return usual if model in MODELS_WITH_WRONG_CLASSES else named


def maps_bytes(tokenizer):
    """Whether one of its parts maps bytes to characters."""
    return tokenizer is not None and "ByteLevel" in f"{tokenizer.pre_tokenizer}{tokenizer.decoder}"
