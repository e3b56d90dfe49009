"""The characters of a conversation's text that are targets.

1. Where the template marks what an assistant said ({% generation %}), its marks decide.
2. Else a turn's targets begin where the text of the messages before it ends, with what the template puts
   there to let the assistant answer, and end where the text of the messages up to it ends. That text is the
   beginning of the whole text.
3. A template may end every text with the token that ends texts, as Phi-3's does. The shorter text of 2 is then
   taken without it.
4. A template may write a turn otherwise when messages follow, as Qwen3 leaves earlier thinking out. Then the
   border is looked for behind the content of the message before it, or behind the function's name in its last
   call. A letter that the text lacks is put at the end of that content, in the whole text and in the shorter
   text of 2. Each must have this one letter more. What stands behind the letter in the shorter text must also
   stand behind it in the whole text.
5. What none of these tells is refused.
"""

import re
from functools import partial

from slimpack.generation.chat_environment import MARKS
from slimpack.text.errors import BadDocument

LOSS_ON = ("assistant", "last", "all")
SIGNS = [chr(code) for code in range(0xFDD0, 0xFDF0)]  # characters that Unicode gives no meaning
LETTERS = [chr(code) for code in range(0x1E00, 0x1E90)]
MARKED = "name a template with {% generation %} marks with --chat-template, or remove the line"


class Targets:
    """The targets of one conversation. Raises InvalidInput where its template fails, BadDocument where a
    target's place cannot be told."""

    def __init__(self, chat, conversation, loss_on):
        self.chat, self.conversation, self.loss_on = chat, conversation, loss_on
        self.messages = conversation.messages
        self.render = partial(chat.text, tools=conversation.tools)
        self.text = self.render(self.messages, add_generation_prompt=False)

    def spans(self):
        """(begin, end) of the targets in the text, in order, none empty and none touching the next one."""
        if self.loss_on == "all":
            return [(0, len(self.text))] if self.text else []
        turns = [i for i, message in enumerate(self.messages)
                 if message["role"] == "assistant" and i >= self.conversation.first]
        if not turns:
            return []
        turns = turns[-1:] if self.loss_on == "last" else turns
        if self.chat.has_generation(self.conversation.tools):
            return joined(self.marked_spans(turns[0] if self.loss_on == "last" else self.conversation.first))
        return joined([self.turn_span(turn) for turn in turns])

    def marked_spans(self, first):
        """The spans that the template marks from a message on."""
        spans = self.marks(self.messages, self.text)
        if first == 0:
            return spans
        text = self.render(self.messages[:first], add_generation_prompt=False)
        before = [text[begin:end] for begin, end in self.marks(self.messages[:first], text)]
        if [self.text[begin:end] for begin, end in spans[:len(before)]] != before:
            raise BadDocument(f"{self.conversation.place}: the chat template does not tell which of its marks belong "
                              f"to message {first + 1}: it writes what it has marked before otherwise where messages "
                              "follow; remove the line, or mend the template")
        return spans[len(before):]

    def marks(self, messages, text):
        """The spans that the template marks in the text of messages: it is rendered again, with signs around
        them."""
        free = [sign for sign in SIGNS if sign not in text][:2]
        if len(free) < 2:
            raise BadDocument(f"{self.conversation.place}: the text has characters without meaning (U+FDD0 to "
                              "U+FDEF), with which marks are found; remove the line")
        marked = self.render(messages, add_generation_prompt=False, variables={MARKS: free})
        spans, begins, parts, length = [], [], [], 0
        for part in re.split(f"([{''.join(free)}])", marked):
            if part == free[0]:
                begins.append(length)
            elif part == free[1] and begins:
                spans.append((begins.pop(), length))
            else:
                parts.append(part)
                length += len(part)
        if begins or "".join(parts) != text:
            raise BadDocument(f"{self.conversation.place}: the chat template changes text that it has marked "
                              "({% generation %}), so that it has no place; mark what is written, or remove the "
                              "marks")
        return sorted(spans)

    def turn_span(self, turn):
        if turn == 0:
            raise self.refusal(turn, "no message stands before it", "begin with a turn of another role")
        begin, end = self.border(turn, True), self.border(turn + 1, False)
        if begin > end:
            raise self.refusal(turn, "it ends before it begins")
        return begin, end

    def border(self, count, is_begin):
        """Where the first messages end in the text, with or without the beginning of an answer."""
        if count == len(self.messages) and not is_begin:
            return len(self.text)
        text = self.render(self.messages[:count], add_generation_prompt=is_begin)
        if self.text.startswith(text):
            return len(text)
        if not is_begin and (bare := self.without_end_of_text(text)) and self.text.startswith(bare):
            return len(bare)
        here = self.content_end(self.messages[:count], text, is_begin)
        there = self.content_end(self.messages, self.text, False, count - 1)
        if here is None or there is None or not self.text.startswith(text[here:], there):
            which, where = (count, "begins") if is_begin else (count - 1, "ends")
            raise self.refusal(which, f"it writes the turn otherwise where messages follow, so that it is unknown "
                                      f"where it {where}")
        return there + len(text) - here

    def without_end_of_text(self, text):
        """A text without the token at its end that ends texts; None where not both it and the whole text have one."""
        end = self.chat.texts.special_tokens.get("eos_token")
        return text.removesuffix(end) if end and text.endswith(end) and self.text.endswith(end) else None

    def content_end(self, messages, text, has_prompt, at=-1):
        """Where the content of a message ends in the text of all; None where it does not stand there once, as it
        is."""
        letter = next((letter for letter in LETTERS if letter not in text), None)
        longer = list(messages)
        longer[at] = longer[at] if letter is None else with_letter(messages[at], letter)
        if longer[at] is messages[at]:
            return None
        found = self.render(longer, add_generation_prompt=has_prompt)
        end = found.find(letter)
        return end if end >= 0 and found == text[:end] + letter + text[end:] else None

    def refusal(self, turn, why, remedy=None):
        ways = [remedy] if remedy else [] if self.loss_on == "last" else ["give --loss-on last"]
        return BadDocument(f"{self.conversation.place}: the chat template does not tell which tokens message "
                           f"{turn + 1} ({self.messages[turn]['role']}) has: {why}; {', '.join([*ways, MARKED])}")


def with_letter(message, letter):
    """The message with a letter at the end of its content, or else of the name of the last function it calls. The
    message itself where it has neither."""
    content = message.get("content")
    if content and content.strip():
        bare = content.rstrip()
        return {**message, "content": bare + letter + content[len(bare):]}
    try:
        *calls, call = message["tool_calls"]
        if "function" in call:
            function = {**call["function"], "name": call["function"]["name"] + letter}
            return {**message, "tool_calls": [*calls, {**call, "function": function}]}
        return {**message, "tool_calls": [*calls, {**call, "name": call["name"] + letter}]}
    except (KeyError, TypeError, ValueError):
        return message


def joined(spans):
    """Spans in order, where touching ones are one and empty ones none."""
    made = []
    for begin, end in sorted(spans):
        if begin == end:
            continue
        if made and begin <= made[-1][1]:
            made[-1] = made[-1][0], max(end, made[-1][1])
        else:
            made.append((begin, end))
    return made
