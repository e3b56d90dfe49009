"""Hugging Face tokenizers: loading one, training one, and which token ends a document."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from slimpack.text.errors import BadInput, reading, shown
from slimpack.text.special_tokens import SpecialTokens, read_special_tokens
from slimpack.text.tokenizer_classes import part_text_as

END_OF_TEXT = "<|endoftext|>"
# The end of a text in tokenizers that do not say so themselves.
KNOWN_ENDS = (END_OF_TEXT, "<|end_of_text|>", "<｜end▁of▁sentence｜>", "</s>", "<eos>")
MIN_TRAINED = 257  # the bytes and the end of text


@dataclass(frozen=True)
class TokenizerText:
    """A tokenizer.json as it was read once, with the special tokens of the files beside it, so that all
    processes have the same."""

    json: str
    vocabulary: int  # largest id + 1
    end: str | None  # the token that ends a document
    end_id: int | None
    ends_itself: bool = False  # its template has put `end` behind every text already
    end_is_usual: bool = False  # nothing names `end`: it has a usual name
    has_dropout: bool = False  # the tokenizer.json asks for random tokens, which no text gets here
    special: SpecialTokens | None = None  # what the files beside it declare
    lacking: frozenset = frozenset()  # of these the texts that have no id in any file

    @property
    def checksum(self):
        return "sha256:" + hashlib.sha256(self.json.encode()).hexdigest()


def import_tokenizers():
    try:
        import tokenizers
    except ImportError as error:
        raise BadInput(f"text needs the library tokenizers ({error}); pip install slimpack[text]") \
            from error
    return tokenizers


def load(text):
    """A tokenizer that neither shortens nor pads what it is given, and gives it the same tokens always."""
    tokenizer = import_tokenizers().Tokenizer.from_str(text)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if has_dropout(tokenizer):
        tokenizer.model.dropout = None
    return tokenizer


def has_dropout(tokenizer):
    return bool(getattr(tokenizer.model, "dropout", None))


def end_of_document(path, vocabulary, special, lacking, wanted=None, append=None):
    """(the token that ends every document, whether that is a guess by its name); None when it is not known
    or not wanted."""
    if append is False:
        return None, False
    if wanted is not None:
        if wanted not in vocabulary:
            raise BadInput(f"--eod-token: '{path}' has no token '{wanted}'; give one that it has")
        return wanted, False
    named = special.names.get("eos_token")
    if named is not None and named.content in lacking:
        raise BadInput(f"'{shown(special.files['eos_token'])}' names the eos_token '{named.content}', which "
                       f"'{path}' lacks; mend the name, or give --eod-token to 'slimpack data build'")
    if named is not None and named.content in vocabulary:
        return named.content, False
    for token in KNOWN_ENDS:
        if token in vocabulary:
            return token, True
    if append:
        raise BadInput(f"--append-eod: '{path}' does not say which token ends a text; give "
                       "--eod-token")
    return None, False


def read_tokenizer(path, wanted_end=None, append=None):
    """Reads a tokenizer.json, or the one of a folder."""
    file = Path(path)
    if file.is_dir():
        file /= "tokenizer.json"
    name = shown(file)
    of_hub = "" if file.parent.exists() else "; a model of the Hub is downloaded first (hf download NAME --local-dir FOLDER)"
    with reading(file, "tokenizer", f"check the path{of_hub}"):
        data = file.read_bytes()
    library = import_tokenizers()
    try:
        text = data.decode("utf-8-sig")
        tokenizer = library.Tokenizer.from_str(text)
    except Exception as error:  # the library has no type of its own
        reason = " ".join(str(error).split())
        raise BadInput(f"'{name}' is no tokenizer ({reason}); give the tokenizer.json of a Hugging "
                       "Face model") from error
    special = read_special_tokens(file.parent, tokenizer)
    has_new_tokens, lacking = special.add_to(tokenizer, library)
    is_rebuilt = part_text_as(special.class_name, tokenizer, special.config, library)
    ids = tokenizer.get_vocab(with_added_tokens=True)
    if not ids:
        raise BadInput(f"'{name}' has no tokens; give the tokenizer.json of a Hugging Face model")
    end, is_usual = end_of_document(name, ids, special, lacking, wanted_end, append)
    if has_new_tokens or is_rebuilt:
        text = tokenizer.to_str()
    return described(tokenizer, text, end, end_is_usual=is_usual, has_dropout=has_dropout(tokenizer),
                     special=special, lacking=frozenset(lacking))


def described(tokenizer, text, end, **more):
    ids = tokenizer.get_vocab(with_added_tokens=True)
    end_id = None if end is None else ids[end]
    return TokenizerText(text, max(ids.values()) + 1, end, end_id,
                         end is not None and ends_itself(tokenizer, end_id), **more)


def ends_itself(tokenizer, end_id):
    """Whether the tokenizer's own template closes a text with this token. Two texts are tried: one
    token may begin texts and end them, and a text may be nothing to a tokenizer."""
    try:
        bare = tokenizer.encode("a", add_special_tokens=False).ids
        whole = tokenizer.encode("a").ids
    except Exception:  # the letter is not in the vocabulary
        return False
    return bool(bare) and bare[-1] != end_id and whole[-1] == end_id


def train(texts, vocabulary, end):
    """A byte-level BPE of at most so many tokens, of which `end` is the first."""
    library = import_tokenizers()
    byte_level = library.pre_tokenizers.ByteLevel
    tokenizer = library.Tokenizer(library.models.BPE())
    tokenizer.pre_tokenizer = byte_level(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=[end], initial_alphabet=byte_level.alphabet(),
        show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer.to_str()
