"""Chat templates: messages to the text that a model was tuned on.

A template is a Jinja program. It lies in chat_template.jinja, in additional_chat_templates/NAME.jinja, or
in tokenizer_config.json. It runs in a sandbox and sees what transformers lets it see, so that the text is
that of transformers, byte by byte. Whatever renders messages does it here.
"""

import contextlib
from collections.abc import Mapping

from slimpack._planner import InvalidInput
from slimpack.generation.chat_environment import compiled, has_generation
from slimpack.text.errors import reading, shown
from slimpack.text.special_tokens import read_object

CONFIG, FILE, FOLDER = "tokenizer_config.json", "chat_template.jinja", "additional_chat_templates"
LETTER = "\u1e9f"  # no template writes it by itself
# Names under which a message's reasoning is given. Templates read the first.
REASONING = ("reasoning_content", "thinking", "reasoning")


class Chat:
    """The chat templates of a model. False where it has none.

    folder: the model's. texts: how it reads text; the templates in its tokenizer's folder go first.
    template_file: a Jinja program in place of all these.
    """

    def __init__(self, folder, texts, template_file=None):
        self.texts = texts
        if template_file is not None:
            self.folder, self.templates = template_file, {"default": read_template(template_file)}
            return
        self.folder, self.templates = texts.folder, templates_of(texts.folder)
        if not self.templates and texts.folder != folder:
            self.folder, self.templates = folder, templates_of(folder)

    def __bool__(self):
        return bool(self.templates)

    def text(self, messages, *, tools=None, documents=None, template=None, variables=None,
             add_generation_prompt=True):
        """The text of messages, such as {"role": "user", "content": "Hello"}, up to where the answer begins.

        tools, documents: JSON schemas of functions, and texts, for templates that know them.
        template: the name of one of several templates, or a Jinja program.
        variables: by name, what else the template sees, such as {"enable_thinking": False}.
        Raises InvalidInput for what is no list of messages, and where the template fails or refuses it.
        """
        given = {"messages": messages_of(messages), "tools": plain(tools, "tools"),
                 "documents": plain(documents, "documents"),
                 "add_generation_prompt": add_generation_prompt,
                 **self.texts.special_tokens, **plain(variables or {}, "variables")}
        with self.told():
            return compiled(self.chosen(template, tools)).render(given)

    def end_of_turn(self, **settings):
        """The special token (its text) that the template writes behind what an assistant said; None where it writes
        none. Settings as in text."""
        messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": LETTER}]
        with contextlib.suppress(InvalidInput):  # it may refuse these messages, which nobody gave
            behind = self.text(messages, add_generation_prompt=False, **settings).partition(LETTER)[2].lstrip()
            return max(filter(behind.startswith, self.texts.special_ids), key=len, default=None)

    def has_generation(self, tools=None):
        """Whether the template for these tools marks what an assistant said."""
        with self.told():
            return has_generation(self.chosen(None, tools))

    @contextlib.contextmanager
    def told(self):
        """Tells a failing template in one line."""
        try:
            yield
        except InvalidInput:
            raise
        except Exception as error:  # a template is a program, and may fail in any way
            reason = " ".join(str(error).split()) or type(error).__name__
            raise InvalidInput(f"the chat template of '{shown(self.folder)}' fails: {reason}; mend the "
                               "template, or give messages that it takes") from error

    def tokens(self, messages, **settings):
        """The tokens of that text. Settings as in text."""
        text = self.text(messages, **settings)
        self.require_known(text)
        return self.texts.encode(text, special=False)

    def require_known(self, text):
        """Raises InvalidInput where the template has written a special token that the tokenizer lacks."""
        for name, token in self.texts.lacking.items():
            if token in text:
                raise InvalidInput(f"the chat template writes the {name} '{token}', which the tokenizer "
                                   "lacks; mend the name in tokenizer_config.json, or give the model's "
                                   "own --tokenizer")

    def chosen(self, template, tools):
        """The text of the template that is asked for."""
        if template is not None:
            several = len(self.templates) > 1 or "default" not in self.templates
            return self.templates.get(template, template) if several else template
        if tools is not None and "tool_use" in self.templates:
            return self.templates["tool_use"]
        if "default" in self.templates:
            return self.templates["default"]
        if self.templates:
            names = ", ".join(f"'{name}'" for name in sorted(self.templates))
            raise InvalidInput(f"'{shown(self.folder)}' has the chat templates {names} and none named "
                               "'default'; name one of them with template=")
        raise InvalidInput(f"'{shown(self.folder)}' has no chat template; leave --chat away for a model "
                           f"that was not tuned on chats, or put its template there as {FILE}")


def templates_of(folder):
    """Name → text. Files go before what tokenizer_config.json has."""
    found = {}
    if (folder / FILE).exists():
        found["default"] = read_template(folder / FILE)
    for file in sorted((folder / FOLDER).glob("*.jinja")):
        found[file.name.removesuffix(".jinja")] = read_template(file)
    return found or templates_in(read_object(folder / CONFIG).get("chat_template"), folder / CONFIG)


def read_template(file):
    try:
        with reading(file, "chat template"):
            return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"'{shown(file)}' is no UTF-8 text (byte {error.start}); convert it") from error


def templates_in(value, file):
    """Name → text, of a template, of several by name, or of a list of them."""
    if value is None:
        return {}
    if isinstance(value, str):
        return {"default": value}
    try:
        by_name = {one["name"]: one["template"] for one in value} if isinstance(value, list) else dict(value)
    except (TypeError, KeyError, ValueError):
        by_name = {"": None}
    if not all(isinstance(text, str) for pair in by_name.items() for text in pair):
        raise InvalidInput(f"'{shown(file)}': chat_template is neither a text nor a list of objects with name "
                           "and template; mend the file, or download the model again")
    return by_name


def messages_of(messages):
    """Messages for templates: without keys that are null, and with reasoning under the usual names."""
    made = plain(messages, "messages")
    if not isinstance(made, list) or not made:
        raise InvalidInput("a chat has no message; give a list of messages, such as "
                           '[{"role": "user", "content": "Hello"}]')
    for message in made:
        if not isinstance(message, dict):
            raise InvalidInput(f"{message!r} is no message; give objects, such as "
                               '{"role": "user", "content": "Hello"}')
    return [with_reasoning({key: value for key, value in message.items() if value is not None})
            for message in made]


def with_reasoning(message):
    reasoning = next((message[key] for key in REASONING if message.get(key) is not None), None)
    if reasoning is None:
        return message
    return {"thinking": reasoning, **message, "reasoning_content": reasoning}


def plain(value, what):
    """A copy of plain JSON types, whose methods are known to the sandbox. Raises InvalidInput for others."""
    if value is None or isinstance(value, bool):
        return value
    for kind, of_kind in ((str, str.__str__), (int, int.__int__), (float, float.__float__)):
        if isinstance(value, kind):
            return of_kind(value)
    if isinstance(value, Mapping):
        return {plain(key, what): plain(item, what) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, what) for item in value]
    raise InvalidInput(f"{what} of a chat hold a {type(value).__name__}; give texts, numbers, lists and "
                       "objects")
