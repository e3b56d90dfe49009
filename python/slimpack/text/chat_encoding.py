"""Batches of conversations to tokens and masks."""

import datetime
import hashlib
import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slimpack import InvalidInput
from slimpack.generation.chat import Chat
from slimpack.text.conversations import conversations_of
from slimpack.text.encoding import EncodedBatch, Encoder, Findings
from slimpack.text.errors import BadDocument, BadInput, listed, require_text, shown
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
        # It puts tokens around every text, and may leave spaces out of the places of tokens.
        self.tokenizer.post_processor = None
        self.chat, self.loss_on = chat, loss_on
        added = self.tokenizer.get_added_tokens_decoder().values()
        self.special = tuple(token.content for token in added if token.special)

    def encode(self, batch):
        lengths, tokens, masks, found, characters = [], [], [], Findings(), 0
        for conversation in conversations_of(batch, self.field):
            text, stored, mask = self.encode_one(conversation, found)
            characters += len(text)
            if stored is None:
                continue
            lengths.append(len(stored))
            tokens.append(stored.tobytes())
            masks.append(mask)
        return EncodedBatch(
            np.array(lengths, "<i4").tobytes(), b"".join(tokens), len(lengths), characters, found, batch.end,
            batch.read, b"".join(mask.tobytes() for mask in masks), sum(int(mask[1:].sum()) for mask in masks))

    def encode_one(self, conversation, found):
        """(text, its tokens as they are stored, for each 1 if it is a target, else 0); None in place of both where
        no token is a target. found: Findings, to which others are added."""
        text, spans = self.targets_of(conversation)
        stored, mask = self.encoded(conversation.place, text, spans, found)
        # The first token of a document is never predicted.
        if not mask[1:].any():
            found.add(Findings(empty=1, first_empty=f"{conversation.place} ({why_without_targets(conversation)})"))
            return text, None, None
        if not text[:spans[-1][1]].rstrip().endswith(self.special):
            found.add(Findings(endless=1, first_endless=conversation.place))
        if lost := self.losses.of(text):
            found.add(Findings(lost_characters=lost, lossy=1, first_lossy=conversation.place))
        return text, stored, mask

    def targets_of(self, conversation):
        """The text of a conversation, and the spans of its targets."""
        try:
            targets = Targets(self.chat, conversation, self.loss_on)
            require_text("the text", targets.text, "mend or remove the line")
            self.chat.require_known(targets.text)
            return targets.text, targets.spans()
        except BadDocument:
            raise
        except RecursionError as error:
            raise BadDocument(f"{conversation.place}: values lie in each other too deeply for a chat template; mend or "
                              "remove the line") from error
        except InvalidInput as error:
            raise BadDocument(f"{conversation.place}: {error}") from error

    def encoded(self, place, text, spans, found):
        """The tokens of a text as they are stored, and for each 1 if it is a target, else 0. A text is cut where a
        turn of the assistant begins or ends within a token: what generation goes on from ends there, too."""
        ids, begins, ends = self.tokens_of(place, text, [0, len(text)])
        if torn := torn_borders(begins, ends, spans):
            cut, begins, ends = self.tokens_of(place, text, [0, *torn, len(text)])
            if self.tokenizer.decode(cut, skip_special_tokens=False) != self.tokenizer.decode(
                    ids, skip_special_tokens=False):
                at = torn[0]
                raise BadDocument(f"{place}: a turn of the assistant begins or ends within a token, between "
                                  f"{text[max(at - 9, 0):at]!r} and {text[at:at + 9]!r}, and the tokenizer puts a "
                                  "space before what begins there; let a space stand there, or remove the line")
            ids = cut
            found.add(Findings(cut=1, first_cut=place))
        return self.stored(place, ids) if ids else np.zeros(0, self.type), mask_of(begins, spans)

    def tokens_of(self, place, text, cuts):
        """(ids, where each begins in the text, where it ends) of the parts between the cuts."""
        ids, offsets = [], []
        for begin, end in itertools.pairwise(cuts):
            encoding = self.encoding_of(place, text[begin:end])
            ids += encoding.ids
            offsets.append(np.array(encoding.offsets, np.int64).reshape(-1, 2) + begin)
        begins, ends = np.concatenate(offsets).T
        return ids, begins, ends


def why_without_targets(conversation):
    """In words, why no token of a conversation is a target."""
    roles = {message["role"]: None for message in conversation.messages[conversation.first:]}
    if "assistant" in roles:
        return "its text has nothing of what the assistant says"
    return f"its roles are {listed(roles)}, none is 'assistant'"


def torn_borders(begins, ends, spans):
    """The begins and ends of spans that lie within a token. begins, ends: of the tokens' characters."""
    borders = np.array([border for span in spans for border in span], np.int64)
    token = np.searchsorted(begins, borders, "left") - 1  # the last that begins before the border
    ends = np.append(ends, 0)  # [-1] is the end of no token
    return borders[ends[token] > borders].tolist()


def mask_of(begins, spans):
    """1 for each token within a span, else 0. begins: of the tokens' characters. spans: in order, apart from each
    other."""
    first = np.array([begin for begin, _ in spans], np.int64)
    last = np.array([end for _, end in spans] + [-1], np.int64)  # [-1] is that of no span
    span = np.searchsorted(first, begins, "right") - 1  # the last that begins before the token, or with it
    return (begins < last[span]).astype("u1")
