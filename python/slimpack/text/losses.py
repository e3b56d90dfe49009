"""Characters that a tokenizer drops without a trace.

A BPE without a token for the unknown leaves out characters that are not in its vocabulary. All other models
refuse such text or have a token for it.
"""

import re

ALPHABET = 256  # bytes
BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(ALPHABET)]


class Losses:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.possible = may_lose(tokenizer)
        self.lost = {}  # whether it is, by character
        added = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
        longest_first = sorted(added, key=len, reverse=True)
        self.added = re.compile("|".join(map(re.escape, longest_first))) if added else None
        # A tokenizer may put tokens before any text. They are no part of the text.
        self.put_before = set(self.parts("a")) & set(self.parts("b")) if self.possible else set()

    def of(self, text):
        """How many characters of a text have no token, or lack one of several."""
        if not self.possible or not any(map(self.is_lost, set(text))):
            return 0
        if self.added is not None:
            text = self.added.sub("", text)
        return sum(text.count(character) for character in set(text) if self.is_lost(character))

    def is_lost(self, character):
        if character not in self.lost:
            self.lost[character] = any(not self.tokenizer.model.tokenize(part)
                                       for part in self.parts(character) if part not in self.put_before)
        return self.lost[character]

    def parts(self, character):
        """The characters that the model sees for one of a text. None where the tokenizer parts words by it."""
        normalizer, pre_tokenizer = self.tokenizer.normalizer, self.tokenizer.pre_tokenizer
        text = normalizer.normalize_str(character) if normalizer else character
        words = [word for word, _ in pre_tokenizer.pre_tokenize_str(text)] if pre_tokenizer else [text]
        return "".join(words)


def may_lose(tokenizer):
    model = tokenizer.model
    if type(model).__name__ != "BPE" or model.unk_token is not None:
        return False
    if model.byte_fallback and all(model.token_to_id(token) is not None for token in BYTE_TOKENS):
        return False
    from tokenizers import pre_tokenizers
    maps_bytes = "ByteLevel" in f"{tokenizer.normalizer}{tokenizer.pre_tokenizer}"
    return not maps_bytes or any(model.token_to_id(letter) is None
                                 for letter in pre_tokenizers.ByteLevel.alphabet())
