"""Rows of a table to tokens, and masks of what the loss counts, as `slimpack data build` makes them of lines."""

import contextlib
import tempfile

from slimpack import InvalidInput
from slimpack.text.chat_encoding import ChatEncoder, chat_of, identity
from slimpack.text.conversations import EXAMPLE, MESSAGES, conversation_of, line_of
from slimpack.text.documents import object_of
from slimpack.text.encoding import Encoder, Findings
from slimpack.text.targets import LOSS_ON
from slimpack.text.tokenizer import read_tokenizer


class ConversationRows:
    """Encodes rows with messages, or with a prompt and a completion.

    tokenizer: a folder, a tokenizer.json or a tokenizer of transformers. template_file: in place of its chat
    template. found: Findings about all rows so far.
    """

    columns = ("input_ids", "assistant_masks")

    def __init__(self, tokenizer, column, loss_on, template_file):
        if loss_on not in LOSS_ON:
            raise InvalidInput(f"loss_on is {loss_on!r}, must be one of {', '.join(LOSS_ON)}")
        with _folder_of(tokenizer) as folder:
            read = read_tokenizer(folder)
            chat = chat_of(read, folder, template_file)
        self.column, self.found = column or MESSAGES, Findings()
        self._encoder = ChatEncoder(read, chat, loss_on, self.column)
        self.identity = [read.checksum, loss_on, self.column, *identity(chat).values()]

    def encode(self, places, rows):
        """By row that has a target (its tokens, their mask). rows: dicts."""
        for place, row in zip(places, rows, strict=True):
            value = object_of(line_of(row).encode(), place, EXAMPLE)
            conversation = conversation_of(value, place, self.column)
            _, tokens, mask = self._encoder.encode_one(conversation, self.found)
            if tokens is not None:
                yield tokens, mask


class TextRows:
    """Encodes the texts of a column, each with the token that ends a document. tokenizer, found: as above."""

    columns = ("input_ids",)

    def __init__(self, tokenizer, column):
        with _folder_of(tokenizer) as folder:
            read = read_tokenizer(folder)
        self.column, self.found = column, Findings()
        self._encoder = Encoder(read, column)
        self.identity = [read.checksum, column, str(read.end)]

    def encode(self, places, rows):
        """By row with tokens (they,)."""
        texts = {place: row[self.column] for place, row in zip(places, rows, strict=True) if row[self.column]}
        self.found.add(Findings(empty=len(rows) - len(texts)))
        for tokens in self._encoder.encode_texts(list(texts), list(texts.values()), self.found):
            yield tokens,


@contextlib.contextmanager
def _folder_of(tokenizer):
    """The path of a tokenizer's files. Those of a tokenizer of transformers are written, and go away again."""
    if not hasattr(tokenizer, "save_pretrained"):
        yield tokenizer
        return
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        yield folder
