"""Text to tokens and back: a Hugging Face tokenizer, or bytes."""

import codecs
import json
from pathlib import Path

from slimpack._planner import InvalidInput
from slimpack.text.errors import BadInput, reading, shown
from slimpack.text.tokenizer import import_tokenizers, load, read_tokenizer

BYTE_VOCABULARY = 257  # the bytes and the end of a document
BYTE_END = 256


class ByteText:
    """Every byte of the text's UTF-8 is a token."""

    end_tokens = (BYTE_END,)

    def encode(self, text, special=True):
        return list(text.encode())

    def stream(self):
        """A function from a token to the text that is complete with it."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        return lambda token: decoder.decode(bytes([token])) if token < BYTE_END else ""


class TokenizerText:
    """Tokens of a tokenizer.json."""

    def __init__(self, path, end_tokens):
        try:
            read = read_tokenizer(path)
        except BadInput as error:
            raise InvalidInput(str(error)) from error
        self.tokenizer = load(read.json)
        self.end_tokens = end_tokens or (() if read.end_id is None else (read.end_id,))

    def encode(self, text, special=True):
        """`special`: with the tokens that the tokenizer puts around every text."""
        return self.tokenizer.encode(text, add_special_tokens=special).ids

    def stream(self):
        stream = import_tokenizers().decoders.DecodeStream(skip_special_tokens=True)
        return lambda token: stream.step(self.tokenizer, token) or ""


def json_of(path):
    """Of a file in a model's folder; an empty dict where there is none."""
    if not path.exists():
        return {}
    try:
        with reading(path, "settings"):
            value = json.loads(path.read_bytes())
    except BadInput as error:
        raise InvalidInput(str(error)) from error
    except ValueError as error:
        raise InvalidInput(f"'{shown(path)}' is no JSON ({error}); download the model again") \
            from error
    if not isinstance(value, dict):
        raise InvalidInput(f"'{shown(path)}' holds no JSON object; download the model again")
    return value


def end_tokens(folder):
    """The tokens that end an answer, as the model's settings name them."""
    for name in ("generation_config.json", "config.json"):
        ids = json_of(folder / name).get("eos_token_id")
        if ids is None:
            continue
        ids = ids if isinstance(ids, list) else [ids]
        if all(isinstance(token, int) and not isinstance(token, bool) for token in ids):
            return tuple(ids)
        raise InvalidInput(f"'{shown(folder / name)}': eos_token_id is {ids}, it must be a token's "
                           "number or a list of them")
    return ()


def text_of(folder, vocabulary, tokenizer=None):
    """How a model reads text. `tokenizer`: a tokenizer.json, or its folder, in place of the model's."""
    path = Path(tokenizer) if tokenizer is not None else folder / "tokenizer.json"
    if tokenizer is None and not path.exists():
        if vocabulary == BYTE_VOCABULARY:
            return ByteText()
        raise InvalidInput(f"'{shown(folder)}' has no tokenizer.json, and its vocabulary of "
                           f"{vocabulary} is not that of bytes ({BYTE_VOCABULARY}); give the "
                           "tokenizer that the model was trained with")
    return TokenizerText(path, end_tokens(folder))
