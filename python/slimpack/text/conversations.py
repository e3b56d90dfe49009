"""Conversations of JSON lines and Parquet: messages with roles, as chat templates take them.

An object has its messages in a field, or else in the fields "prompt" and "completion". A prompt that is a text
is one message of a user, such a completion one of an assistant.
"""

import json
from dataclasses import dataclass

from slimpack.text.documents import object_of, records_of
from slimpack.text.errors import BadDocument, listed, shortened

MESSAGES = "messages"
PROMPT, COMPLETION, TOOLS = "prompt", "completion", "tools"
EXAMPLE = '{"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}'
MEND = "mend or remove the line"


@dataclass(frozen=True)
class Conversation:
    """One document. A place is what messages of errors begin with."""

    place: str
    messages: list
    tools: list | None  # JSON schemas of functions
    first: int  # the messages before it are a prompt: none of their tokens is a target of an assistant's turn


@dataclass(frozen=True)
class ConversationColumns:
    """In place of a TextColumn: the columns of Parquet that hold a conversation. Each row is read as the line of
    JSON that has the same values."""

    field: str

    def names(self, name, schema):
        """The columns to read of a file. Raises BadDocument where it has none of messages."""
        present = [column for column in (self.field, PROMPT, COMPLETION, TOOLS) if column in schema.names]
        if self.field not in present and not {PROMPT, COMPLETION} <= set(present):
            raise BadDocument(f"'{name}' has neither a column '{self.field}' nor '{PROMPT}' and '{COMPLETION}', "
                              f"it has {listed(schema.names)}; give --field")
        return present

    def rows(self, part):
        """The bytes of each row of a pyarrow.RecordBatch."""
        return [line_of(row).encode() for row in part.to_pylist()]


def line_of(row):
    """The JSON of a row; of one that JSON cannot hold a text that says so, which is no conversation."""
    try:
        return json.dumps(row, ensure_ascii=False)
    except TypeError as error:
        return json.dumps(str(error))


def conversations_of(batch, field):
    """Every Conversation of a batch. Raises BadDocument for what is none."""
    for place, data in records_of(batch):
        yield conversation_of(object_of(data, place, EXAMPLE), place, field)


def conversation_of(value, place, field=MESSAGES):
    """The Conversation in an object."""
    if value.get(field) is not None:
        prompt, answer = [], messages_in(value[field], place, field)
    elif value.get(PROMPT) is not None and value.get(COMPLETION) is not None:
        prompt = messages_in(value[PROMPT], place, PROMPT, "user")
        answer = messages_in(value[COMPLETION], place, COMPLETION, "assistant")
    else:
        present = [name for name in value if value[name] is not None]
        raise BadDocument(f"{place}: neither a field '{field}' nor '{PROMPT}' and '{COMPLETION}', the object has "
                          f"{listed(present)}; give the --field that holds messages, or name a question and its answer "
                          f"'{PROMPT}' and '{COMPLETION}', or {MEND}")
    return Conversation(place, prompt + answer, tools_in(value.get(TOOLS), place), len(prompt))


def messages_in(value, place, field, role_of_text=None):
    """The messages of a field. role_of_text: that of a text that stands in their place. None = none may."""
    if isinstance(value, str) and role_of_text is not None:
        return [{"role": role_of_text, "content": value}]
    if not isinstance(value, list):
        raise BadDocument(f"{place}: field '{field}' is {shortened(value)}, no list of messages; each line holds "
                          f"one, such as {EXAMPLE}")
    if not value:
        raise BadDocument(f"{place}: field '{field}' has no message; {MEND}")
    return [message_of(message, f"{place}: message {number} of '{field}'")
            for number, message in enumerate(value, 1)]


def message_of(message, place):
    """A message with a role and, where it has content, a text."""
    if not isinstance(message, dict):
        raise BadDocument(f"{place} is {shortened(message)}, no object with role and content; {MEND}")
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str) or not role:
        other = "; name 'from' and 'value' role and content" if "from" in message else f"; {MEND}"
        has = f"is {shortened(role)}, no text" if role is not None else f"is missing, it has {listed(message)}"
        raise BadDocument(f"{place}: the role {has}{other}")
    if isinstance(content, list):
        return {**message, "content": "".join(text_of_part(part, place) for part in content)}
    if content is not None and not isinstance(content, str):
        raise BadDocument(f"{place}: the content is {shortened(content)}, neither a text nor a list of texts; "
                          f"{MEND}")
    if content is None and not message.get("tool_calls"):
        raise BadDocument(f"{place} has neither content nor tool calls; {MEND}")
    return message


def text_of_part(part, place):
    """The text of a part of a content: a string, or an object of type text."""
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and part.get("type", "text") == "text" and isinstance(part.get("text"), str):
        return part["text"]
    raise BadDocument(f"{place}: a part of the content is {shortened(part)}, no text; a model of language reads "
                      f'parts such as {{"type": "text", "text": "…"}}; remove the line')


def tools_in(value, place):
    """The schemas of functions. A text is read as their JSON: columns of Parquet have one type."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise BadDocument(f"{place}: field '{TOOLS}' is a text and no JSON ({error}); {MEND}") from error
    if value is None or isinstance(value, list) and all(isinstance(tool, dict) for tool in value):
        return value or None
    raise BadDocument(f"{place}: field '{TOOLS}' is {shortened(value)}, no list of objects that describe "
                      f"functions; {MEND}")
