"""Rules that transformers takes from a tokenizer's class: special tokens that no file names, and, for Llama's
SentencePiece tokenizers, how text is parted."""

END_OF_TEXT, SPACE = "<|endoftext|>", "▁"
LLAMA = "LlamaTokenizer"
TOKENS = {
    LLAMA: {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"},
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


def class_of(tokenizer_config, model_config, tokenizer):
    """The name of the class that transformers would make; None for one without anything of its own."""
    model = model_config.get("model_type")
    usual = CLASS_OF_MODEL.get(model) if isinstance(model, str) else None
    named = tokenizer_config.get("tokenizer_class") or model_config.get("tokenizer_class")
    if not isinstance(named, str):
        return usual
    named = named.removesuffix("Fast")
    if named == LLAMA and maps_bytes(tokenizer) and model not in MODELS_WITH_WRONG_CLASSES:
        return PLAIN
    if usual is None or named == usual:
        return named
    if usual == PLAIN:
        return PLAIN
    return usual if model in MODELS_WITH_WRONG_CLASSES else named


def part_text_as(name, tokenizer, config, library):
    """Lets the tokenizer part text as one of the class `name` does. Returns whether that changes it. Files
    of Llama's have a normalizer that puts a space before every part of a text; the class puts one before
    the text alone, unless tokenizer_config.json says "legacy"."""
    if name != LLAMA or type(tokenizer.model).__name__ != "BPE":
        return False
    decoders, has_prefix = library.decoders, config.get("add_prefix_space") is not False
    scheme = "never" if not has_prefix else "always" if config.get("legacy") else "first"
    tokenizer.normalizer = None
    tokenizer.pre_tokenizer = library.pre_tokenizers.Metaspace(SPACE, prepend_scheme=scheme, split=False)
    parts = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*parts, decoders.Strip(" ", 1, 0)] if has_prefix else parts)
    tokenizer.model.fuse_unk = tokenizer.model.byte_fallback = True
    return True


def maps_bytes(tokenizer):
    """Whether one of its parts maps bytes to characters."""
    return tokenizer is not None and "ByteLevel" in f"{tokenizer.pre_tokenizer}{tokenizer.decoder}"
