"""The special tokens that the files beside a tokenizer.json declare, read as transformers reads them.

1. tokenizer_config.json names tokens ("eos_token" and the like), and may describe added tokens by id
   (added_tokens_decoder).
2. Where it describes none, the names in special_tokens_map.json replace its own, and added_tokens.json
   has the ids.
3. Names that no file has are those of the tokenizer's class, and the token that tokenizer.json pads with.
"""

import json
from dataclasses import dataclass

from slimpack.text.errors import BadInput, reading, shown
from slimpack.text.tokenizer_classes import TOKENS, class_of

CONFIG, MAP, ADDED = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


def read_object(file):
    """The JSON object in a file; an empty dict where there is no file. Raises BadInput."""
    try:
        with reading(file, "settings"):
            value = json.loads(file.read_bytes())
    except BadInput as error:
        if isinstance(error.__cause__, FileNotFoundError) and not file.is_symlink():
            return {}
        raise
    except (ValueError, RecursionError) as error:
        raise BadInput(f"'{shown(file)}' is no JSON ({error}); mend it, or download the model again") \
            from error
    if not isinstance(value, dict):
        raise BadInput(f"'{shown(file)}' holds no JSON object; mend it, or download the model again")
    return value


@dataclass(frozen=True)
class Token:
    """A token as a file describes it. `flags` are those of tokenizers.AddedToken, where they are given."""

    content: str
    flags: tuple = ()

    def added(self, library, special):
        flags = dict(self.flags)
        return library.AddedToken(self.content, **{**flags, "special": special or flags.get("special", False)})


@dataclass(frozen=True)
class SpecialTokens:
    """names: "eos_token" and the like → Token, without those that are null. files: name → the file that
    has it. extra: further special tokens. described: id → Token. config: tokenizer_config.json.
    class_name: of the tokenizer, in transformers."""

    names: dict
    files: dict
    extra: list
    described: dict
    config: dict
    class_name: str | None

    def texts(self):
        """Name → text, as chat templates see them."""
        return {name: token.content for name, token in self.names.items()}

    def without_id(self, ids, lacking):
        """Name → text of those that the tokenizer has no token for. lacking: as add_to returns it."""
        return {name: text for name, text in self.texts().items() if text in lacking or text not in ids}

    def add_to(self, tokenizer, library):
        """Makes the tokenizer know them, as transformers does. Returns (whether that changes it, the texts
        that have no id in any file, and so the next free ones). Raises BadInput where a file gives another
        id than the tokenizer can give."""
        named = {token.content for token in self.names.values()}
        before = {repr(token) for token in tokenizer.get_added_tokens_decoder().values()}
        for id, token in sorted(self.described.items()):
            if repr(token.added(library, False)) in before:
                continue
            is_new = tokenizer.token_to_id(token.content) is None
            tokenizer.add_tokens([token.added(library, token.content in named)])
            given = tokenizer.token_to_id(token.content)
            if is_new and given != id:
                raise BadInput(f"'{shown(self.files['added'])}' gives the token '{token.content}' the id "
                               f"{id}, the tokenizer's next id is {given}; mend the file, or download the "
                               "model again")
        known = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
        lacking, wanted = set(), []
        for token in (*(self.names[name] for name in self.names if name in self.files), *self.extra):
            if token.content not in known and token not in wanted:
                wanted.append(token)
        for token in wanted:
            if tokenizer.token_to_id(token.content) is None:
                lacking.add(token.content)
            tokenizer.add_tokens([token.added(library, True)])
        after = {repr(token) for token in tokenizer.get_added_tokens_decoder().values()}
        return after != before, lacking


def read_special_tokens(folder, tokenizer=None):
    """The SpecialTokens of the files in a folder. tokenizer: that of its tokenizer.json, if it has one."""
    file = folder / CONFIG
    config = read_object(file)
    files = dict.fromkeys(config, file)
    described = _described(config.get("added_tokens_decoder"), file)
    files["added"] = file
    padding = tokenizer and tokenizer.padding
    class_name = class_of(config, read_object(folder / "config.json"), tokenizer)
    names = {**({"pad_token": padding["pad_token"]} if padding else {}), **TOKENS.get(class_name, {}), **config}
    own = _own_names(config)
    if "added_tokens_decoder" not in config:
        of_map = read_object(folder / MAP)
        names.update(of_map)
        files.update(dict.fromkeys(of_map, folder / MAP))
        own.update(_object_in(of_map, "extra_special_tokens"))
    extra = names.get("extra_special_tokens") or names.get("additional_special_tokens") or []
    if not isinstance(extra, (list, dict)):
        raise BadInput(f"'{shown(file)}': the extra special tokens are no list; mend the file, or download "
                       "the model again")
    names.update(own)
    files.update(dict.fromkeys(own, file))
    extra = [] if isinstance(extra, dict) else extra
    in_order = sorted(names, key=lambda name: NAMES.index(name) if name in NAMES else len(NAMES))
    tokens = {name: token for name in in_order
              if (token := _named(name, names[name], files.get(name, file))) is not None}
    extra = [_token(value, "extra_special_tokens", file) for value in extra]
    if "added_tokens_decoder" not in config and (ids := read_object(folder / ADDED)):
        files["added"] = folder / ADDED
        # transformers does not look into the objects of tokenizer_config.json here.
        special = [tokens[name] for name in NAMES if name in tokens
                   and not (isinstance(names[name], dict) and "__type" in names[name])] + extra
        described = _of_ids(ids, {token.content for token in special}, folder / ADDED)
    return SpecialTokens(tokens, files, extra, described, config, class_name)


def _own_names(config):
    """The names of a model's own in tokenizer_config.json, which the map does not replace."""
    own = {name: value for name, value in config.items()
           if name not in NAMES and name.endswith("_token") and isinstance(value, str)}
    return {**own, **_object_in(config, "extra_special_tokens")} or dict(
        _object_in(config, "model_specific_special_tokens"))


def _object_in(config, name):
    return value if isinstance(value := config.get(name), dict) else {}


def _named(name, value, file):
    """The Token of a name; None for what names none."""
    if name in NAMES:
        return None if value is None else _token(value, name, file)
    of_tokens = isinstance(value, str) or (isinstance(value, dict) and "content" in value)
    return _token(value, name, file) if name.endswith("_token") and of_tokens else None


def _token(value, name, file):
    content = value.get("content") if isinstance(value, dict) else value
    if not is_text(content):
        raise BadInput(f"'{shown(file)}': {name} is {json.dumps(value)}, it must be the text of a token; mend "
                       "the file, or download the model again")
    if not isinstance(value, dict):
        return Token(content)
    return Token(content, tuple((flag, bool(value[flag])) for flag in FLAGS if flag in value))


def is_text(content):
    """Whether it is what a token can be: some characters, and no halves of them."""
    return isinstance(content, str) and content != "" and content == content.encode(errors="ignore").decode()


def _described(ids, file):
    """id → Token, of added_tokens_decoder."""
    if ids is None:
        return {}
    if not isinstance(ids, dict) or not all(str(id).isdecimal() for id in ids):
        raise BadInput(f"'{shown(file)}': added_tokens_decoder must have a token by each id; mend the file, or "
                       "download the model again")
    return {int(id): _token(value, f"added token {id}", file) for id, value in ids.items()}


def _of_ids(ids, special, file):
    """id → Token, of added_tokens.json, which says nothing of tokens but their ids."""
    if not all(type(id) is int and is_text(content) for content, id in ids.items()):
        raise BadInput(f"'{shown(file)}' must have the id of each token; mend the file, or download the model "
                       "again")
    return {id: Token(content, (("normalized", content not in special), ("special", content in special)))
            for content, id in ids.items()}
