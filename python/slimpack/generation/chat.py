"""Chat templates: messages to the text that a model was tuned on.

A template is a Jinja program in chat_template.jinja or tokenizer_config.json. It runs in a sandbox, as
transformers runs it.
"""

import datetime

from slimpack._planner import InvalidInput
from slimpack.generation.texts import json_of
from slimpack.text.errors import shown


def template_of(folder):
    file = folder / "chat_template.jinja"
    if file.exists():
        return file.read_text()
    template = json_of(folder / "tokenizer_config.json").get("chat_template")
    if isinstance(template, list):  # several by name
        template = {entry["name"]: entry["template"] for entry in template}.get("default")
    if not isinstance(template, str):
        raise InvalidInput(f"'{shown(folder)}' has no chat template; leave --chat away for a model "
                           "that was not tuned on chats")
    return template


def special_tokens(folder):
    """bos_token, eos_token and the like by name, as templates use them."""
    settings = json_of(folder / "tokenizer_config.json")
    return {name: token["content"] if isinstance(token, dict) else token
            for name, token in settings.items()
            if name.endswith("_token") and isinstance(token, (str, dict))}


def refuse(message):
    raise InvalidInput(f"the chat template refuses the messages: {message}")


def environment():
    try:
        from jinja2.ext import loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError as error:
        raise InvalidInput(f"chat templates need the library jinja2 ({error}); pip install jinja2") \
            from error
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                         extensions=[loopcontrols])
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return made


def chat_text(folder, messages):
    """The text of messages, such as {"role": "user", "content": "Hello"}, up to where the answer begins."""
    from jinja2.exceptions import TemplateError
    try:
        template = environment().from_string(template_of(folder))
        return template.render(messages=messages, add_generation_prompt=True, **special_tokens(folder))
    except TemplateError as error:
        raise InvalidInput(f"the chat template of '{shown(folder)}' fails: {error}") from error
