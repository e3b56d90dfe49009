"""Text to tokens and back: a Hugging Face tokenizer, or bytes."""

import codecs
from pathlib import Path

from slimpack._planner import InvalidInput
from slimpack.generation.pieces import TokenPieces
from slimpack.text.errors import require_text, shown
from slimpack.text.losses import Losses
from slimpack.text.special_tokens import read_object, read_special_tokens
from slimpack.text.tokenizer import end_of_document, load, read_tokenizer

BYTE_VOCABULARY = 257  # the bytes and the end of a document
BYTE_END = 256


class BytePieces:
    """Every token but the end is a byte of UTF-8. In pieces, as TokenPieces."""

    def __init__(self):
        self.decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def step(self, token):
        return self.decoder.decode(bytes([token])) if token < BYTE_END else ""

    def finish(self):
        return self.decoder.decode(b"", final=True)


class ByteText:
    """Every byte of the text's UTF-8 is a token."""

    end_tokens = (BYTE_END,)
    usual_end = None
    special_ids, lacking = {}, {}

    def __init__(self, folder):
        self.folder = folder
        self.special_tokens = read_special_tokens(folder).texts()

    def encode(self, text, special=True):
        require_text("the text", text)
        return list(text.encode())

    def lost(self, text):
        return 0

    def pieces(self):
        return BytePieces()


class TokenizerText:
    """Tokens of a tokenizer.json.

    end_tokens: those that the model's settings name; empty = the tokenizer's own.
    usual_end: the token that ends answers, where that is but a guess by its name. None = no guess.
    special_tokens: name → text. lacking: those of them that the tokenizer has no token for.
    special_ids: text → token of all that answers leave out.
    """

    def __init__(self, path, end_tokens):
        read = read_tokenizer(path, append=False)
        self.tokenizer = load(read.json)
        ids = self.tokenizer.get_vocab(with_added_tokens=True)
        end, is_usual = (None, False) if end_tokens else end_of_document(shown(path), ids, read.special,
                                                                         read.lacking)
        self.folder = path if path.is_dir() else path.parent
        self.special_tokens = read.special.texts()
        self.lacking = read.special.without_id(ids, read.lacking)
        self.end_tokens = end_tokens or (() if end is None else (ids[end],))
        self.usual_end = end if is_usual else None
        self.special_ids = {token.content: id for id, token in
                            self.tokenizer.get_added_tokens_decoder().items() if token.special}
        self.losses = Losses(self.tokenizer)

    def encode(self, text, special=True):
        """`special`: with the tokens that the tokenizer puts around every text."""
        require_text("the text", text)
        try:
            return self.tokenizer.encode(text, add_special_tokens=special).ids
        except Exception as error:  # the library has no type of its own
            reason = " ".join(str(error).split())
            raise InvalidInput(f"the tokenizer cannot encode the text ({reason}); leave out characters that "
                               "it does not know") from error

    def lost(self, text):
        """How many characters of a text have no token."""
        return self.losses.of(text)

    def pieces(self):
        return TokenPieces(self.tokenizer)


def require_fitting(tokens, vocabulary, positions):
    """Raises InvalidInput for tokens that a model cannot go on from. positions: None = any number."""
    if not tokens:
        raise InvalidInput("the prompt has no token; give some text to go on from")
    if positions is not None and len(tokens) > positions:
        raise InvalidInput(f"the prompt has {len(tokens)} tokens, the model {positions} positions; shorten the "
                           "prompt")
    if (unknown := next((token for token in tokens if not 0 <= token < vocabulary), None)) is not None:
        raise InvalidInput(f"token {unknown} is not in the model's vocabulary of {vocabulary}; make the prompt "
                           "with the model's own tokenizer")


def end_tokens(folder):
    """The tokens that end an answer, as the model's settings name them."""
    for name in ("generation_config.json", "config.json"):
        ids = read_object(folder / name).get("eos_token_id")
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
            return ByteText(folder)
        raise InvalidInput(f"'{shown(folder)}' has no tokenizer.json, and its vocabulary of "
                           f"{vocabulary} is not that of bytes ({BYTE_VOCABULARY}); give the "
                           "tokenizer that the model was trained with")
    return TokenizerText(path, end_tokens(folder))
