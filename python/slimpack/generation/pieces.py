"""Tokens to text, one after the other.

Told pieces together are what the library makes of all tokens at once. So a piece is told when no later
token can change it:

1. Special tokens and unknown ones have no text, and are passed over.
2. A token waits with those before it while their text ends within a character, or while a run of byte
   tokens goes on: a run that is no UTF-8 as a whole becomes signs of replacement, all of it.
3. Text of waiting tokens is read behind that of the tokens told last, since decoders treat the first token
   of a text in another way, and one token's text may depend on the one before it.
"""

import re


REPLACEMENT = "\ufffd"
BYTE_TOKEN = re.compile(r"<0x[0-9A-Fa-f]{2}>")


class TokenPieces:
    """The text of one answer as its tokens come."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.silent = {id for id, token in tokenizer.get_added_tokens_decoder().items() if token.special}
        self.has_byte_tokens = "ByteFallback" in str(tokenizer.decoder)
        self.told, self.waiting = [], []  # tokens: those of the last piece, and those without a piece yet

    def step(self, token):
        """The text that is certain with this token."""
        name = self.tokenizer.id_to_token(token)
        if token in self.silent or name is None:
            return ""
        self.waiting.append(token)
        if self.has_byte_tokens and BYTE_TOKEN.fullmatch(name):
            return ""
        before = self.text(self.told)
        text = self.text(self.told + self.waiting)
        if text.endswith(REPLACEMENT):
            return ""
        self.told, self.waiting = self.waiting, []
        return text[len(before):]

    def finish(self):
        """The text that still waits, when no more tokens come."""
        before = self.text(self.told)
        text = self.text(self.told + self.waiting)
        self.told, self.waiting = [], []
        return text[len(before):]

    def text(self, tokens):
        return self.tokenizer.decode(tokens, skip_special_tokens=False) if tokens else ""
