"""Batches of conversations to tokens and masks."""

import datetime
import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slimpack import InvalidInput
from slimpack.generation.chat import Chat
from slimpack.text.conversations import conversations_of
from slimpack.text.encoding import EncodedBatch, Encoder, Findings
from slimpack.text.errors import BadDocument, BadInput, require_text, shown
from slimpack.text.targets import Targets
from slimpack.text.tokenizer import load


@dataclass(frozen=True)
class ChatTexts:
    """The part of a tokenizer that a Chat knows. special_tokens: name → text. lacking: those without a token."""

    folder: Path
    special_tokens: dict
    lacking: dict


def chat_of(tokenizer, path, template_file):
    """The Chat of a tokenizer (TokenizerText) that was read from a path. template_file: in place of its own
    template; or None. Raises InvalidInput where there is none, or none that Jinja takes."""
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    ids = load(tokenizer.json).get_vocab(with_added_tokens=True)
    texts = ChatTexts(folder, tokenizer.special.texts(), tokenizer.special.without_id(ids, tokenizer.lacking))
    chat = Chat(folder, texts, template_file and Path(template_file))
    if not chat:
        raise BadInput(f"'{shown(folder)}' has no chat template; name one with --chat-template FILE")
    chat.has_generation()
    return chat


def identity(chat):
    """Everything but the messages that a text depends on: the template, and the day where it writes that."""
    template = repr(sorted(chat.templates.items()))
    writes_date = "strftime_now" in template
    return {"the chat template": "sha256:" + hashlib.sha256(template.encode()).hexdigest(),
            "the day that the chat template writes": str(datetime.date.today()) if writes_date else None}


class ChatEncoder(Encoder):
    """Conversations in place of texts. The template alone decides what stands before and behind them."""

    def __init__(self, tokenizer, chat, loss_on, field):
        super().__init__(tokenizer, field)
        # It would change no token of a text without added ones, but may leave spaces out of their places.
        self.tokenizer.post_processor = None
        self.chat, self.loss_on = chat, loss_on

    def encode(self, batch):
        lengths, tokens, masks, found, characters = [], [], [], Findings(), 0
        for conversation in conversations_of(batch, self.field):
            text, spans = self.targets_of(conversation)
            stored, mask = self.encoded(conversation.place, text, spans)
            characters += len(text)
            # The first token of a document is never predicted.
            if not mask[1:].any():
                found.add(Findings(empty=1, first_empty=conversation.place))
                continue
            if lost := self.losses.of(text):
                found.add(Findings(lost_characters=lost, lossy=1, first_lossy=conversation.place))
            lengths.append(len(stored))
            tokens.append(stored.tobytes())
            masks.append(mask)
        return EncodedBatch(
            np.array(lengths, "<i4").tobytes(), b"".join(tokens), len(lengths), characters, found, batch.end,
            batch.read, b"".join(mask.tobytes() for mask in masks), sum(int(mask[1:].sum()) for mask in masks))

    def targets_of(self, conversation):
        """The text of a conversation, and the spans of its targets."""
        try:
            targets = Targets(self.chat, conversation, self.loss_on)
            require_text("the text", targets.text, "mend or remove the line")
            self.chat.require_known(targets.text)
            return targets.text, targets.spans()
        except BadDocument:
            raise
        except InvalidInput as error:
            raise BadDocument(f"{conversation.place}: {error}") from error

    def encoded(self, place, text, spans):
        """The tokens of a text as they are stored, and for each 1 if it is a target, else 0."""
        encoding = self.encoding_of(place, text, special=False)
        if not encoding.ids:
            return np.zeros(0, self.type), np.zeros(0, "u1")
        begins, ends = np.array(encoding.offsets).T
        mask, torn = masked(begins, ends, spans)
        if torn is not None:
            raise BadDocument(f"{place}: the token {encoding.ids[torn]} stands for "
                              f"{text[begins[torn]:ends[torn]]!r}, in which a turn of the assistant begins or ends, "
                              "and a token is a target or none; leave white space there out of the content, or "
                              "remove the line")
        return self.stored(place, encoding.ids), mask


def masked(begins, ends, spans):
    """1 for each token within a span, else 0, and the first token that a border of a span tears; None = none is.
    begins, ends: of the tokens' characters. spans: in order, apart from each other."""
    first = np.array([begin for begin, _ in spans], np.int64)
    last = np.array([end for _, end in spans] + [-1], np.int64)  # [-1] is that of no span
    span = np.searchsorted(first, begins, "right") - 1  # the last that begins before the token, or with it
    inside = (begins < last[span]) & (ends <= last[span])
    touching = np.searchsorted(first, ends, "left") - 1  # the last that begins before the token's end
    torn = np.flatnonzero((begins < last[touching]) & (begins < ends) & ~inside)
    return inside.astype("u1"), int(torn[0]) if len(torn) else None
