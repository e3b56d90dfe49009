"""Prompts for a target: their token ids, and where each of them stands."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from slimpack import IndexedDataset, InvalidInput
from slimpack.generation.chat import Chat
from slimpack.generation.texts import BYTE_VOCABULARY, require_fitting, text_of
from slimpack.text.documents import decoded, lines_in, require_line, value_of
from slimpack.text.errors import shortened, shown
from slimpack.text.inputs import UNCLEAR_ENDINGS, ending_format, is_object
from slimpack.text.special_tokens import read_object

OTHER_ENDINGS = (*UNCLEAR_ENDINGS, ".parquet")


@dataclass(frozen=True)
class Prompts:
    tokens: list  # of each prompt the token ids
    places: list  # of each prompt what messages begin with

    def empty(self):
        """The places of prompts that have no token."""
        return [place for place, tokens in zip(self.places, self.tokens) if not tokens]

    def require(self, vocabulary, positions):
        """Refuses prompts that a target cannot take, but for those without a token. positions: None = any
        number."""
        for place, tokens in zip(self.places, self.tokens):
            try:
                require_fitting(tokens or [0], vocabulary, positions)
            except InvalidInput as error:
                raise InvalidInput(f"{place}: {error}") from None


def read_prompts(path, encoder, field, prompt_tokens, count):
    """At most `count` Prompts; None = all.

    FILE.jsonl: the text in a field, or a list of chat messages in it. Another file: each line a prompt.
    Blank lines are passed over. PREFIX of a dataset: the first prompt_tokens of each document.
    encoder: called for the first two kinds alone; returns a function from a text or messages to token ids.
    """
    if Path(f"{path}.idx").exists():
        dataset = IndexedDataset.open(str(path))
        numbers = range(len(dataset) if count is None else min(count, len(dataset)))
        prompts = Prompts([dataset[number][:prompt_tokens].tolist() for number in numbers],
                          [f"'{shown(path)}': document {number}" for number in numbers])
    else:
        asked = list(_texts(str(path), field, count))
        encode = encoder() if asked else None
        prompts = Prompts([_encoded(encode, prompt, place) for place, prompt in asked],
                          [place for place, _ in asked])
    if not any(prompts.tokens):
        raise InvalidInput(f"'{shown(path)}' has no prompt; give a file with one on each line")
    return prompts


def _texts(file, field, count):
    """(place, text or messages) of each prompt."""
    is_json = ending_format(file) == "jsonl"
    if file.lower().endswith(OTHER_ENDINGS):
        raise InvalidInput(f"'{shown(file)}' is no list of prompts by its name; give JSON lines (.jsonl), "
                           "a text with a prompt on each line, or the PREFIX of a dataset")
    lines = list(lines_in(file, "prompts"))
    if not is_json and len(lines) >= 2 and all(is_object(line) for _, line in lines[:2]):
        raise InvalidInput(f"'{shown(file)}' holds JSON lines, though its name does not say so; give it a name "
                           "that ends with .jsonl")
    for number, line in lines[:count]:
        place = f"'{shown(file)}': line {number}"
        yield place, (_prompt_in(line, field, place) if is_json
                      else decoded(line, place).rstrip("\r\n"))


def _prompt_in(line, field, place):
    prompt = value_of(line, place, field)
    if isinstance(prompt, str):
        return require_line(prompt, place, field)
    if not isinstance(prompt, list) or not prompt or not all(
            isinstance(m, dict) and {"role", "content"} <= m.keys() for m in prompt):
        raise InvalidInput(f"{place}: field '{field}' is {shortened(prompt)}, neither a text nor a list "
                           "of chat messages; give --field, or mend the line")
    return prompt


def _encoded(encode, prompt, place):
    try:
        return encode(prompt)
    except InvalidInput as error:
        raise InvalidInput(f"{place}: {error}") from None


def prompt_encoder(target):
    """A function from a text or messages to token ids, by the tokenizer of a target: a folder, or a name on
    the Hub. Where it has a chat template, a text is what a user says."""
    folder = Path(target)
    vocabulary = read_object(folder / "config.json").get("vocab_size") if folder.is_dir() else None
    if (folder / "tokenizer.json").exists() or vocabulary == BYTE_VOCABULARY:
        return _encoder(folder, text_of(folder, vocabulary))
    with tempfile.TemporaryDirectory() as saved:
        from slimpack.draft.target import load_tokenizer
        load_tokenizer(target).save_pretrained(saved)
        if not Path(saved, "tokenizer.json").exists():
            raise InvalidInput(f"'{target}' has no tokenizer.json, and transformers makes none of its "
                               "files; give a target with one")
        return _encoder(Path(saved), text_of(Path(saved), vocabulary))


def _encoder(folder, texts):
    chat = Chat(folder, texts)

    def encode(prompt):
        if chat:
            return chat.tokens([{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt)
        if not isinstance(prompt, str):
            raise InvalidInput("the target has no chat template, so prompts are texts; give texts")
        return texts.encode(prompt)
    return encode
