"""The Jinja environment in which chat templates run: the one of transformers, whose names, filters and tags
templates are written for."""

import datetime
import json
from functools import cache, lru_cache

from slimpack._planner import InvalidInput

# The variable with the two texts to put around what stands in {% generation %}. No template can name it.
MARKS = "generation marks"


def refuse(message):
    reason = " ".join(str(message).split())
    raise InvalidInput(f"the chat template refuses the messages: {reason}")


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    """JSON as json.dumps writes it: Jinja's own filter sorts keys and escapes what HTML escapes."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def strftime_now(form):
    return datetime.datetime.now().strftime(form)


class TemplateDict:
    """dict(…), without the type's other attributes."""

    def __call__(self, *values, **named):
        return dict(*values, **named)

    def fromkeys(self, *values):
        return dict.fromkeys(*values)


@lru_cache(maxsize=8)
def compiled(template):
    """The Jinja template of a text. Raises what jinja2 raises, and InvalidInput without jinja2."""
    return environment().from_string(template)


@lru_cache(maxsize=8)
def has_generation(template):
    """Whether a template marks what an assistant said. Raises as compiled does."""
    compiled(template)
    from jinja2 import nodes
    return environment().parse(template).find(nodes.ExtensionAttribute) is not None


@cache
def environment():
    """Raises InvalidInput without jinja2."""
    try:
        from jinja2 import nodes
        from jinja2.exceptions import SecurityError
        from jinja2.ext import Extension, loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment
        from jinja2.utils import Namespace
    except ImportError as error:
        raise InvalidInput(f"chat templates need the library jinja2 ({error}); pip install jinja2") \
            from error

    class Generation(Extension):
        """{% generation %} … {% endgeneration %} marks what an assistant said, and changes no text but by
        MARKS."""

        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            call = self.call_method("inside", [nodes.ContextReference()])
            return nodes.CallBlock(call, [], [], body).set_lineno(line)

        def inside(self, context, caller):
            begin, end = context.get(MARKS) or ("", "")
            return f"{begin}{caller()}{end}"

    class TemplateNamespace(Namespace):
        """Has no names that begin with an underscore, which lead to Python's own."""

        def __init__(*values, **named):
            self, *values = values
            attributes = dict(*values, **named)
            for name in attributes:
                require_open(name)
            Namespace.__init__(self, attributes)

        def __setitem__(self, name, value):
            require_open(name)
            Namespace.__setitem__(self, name, value)

    def require_open(name):
        if isinstance(name, str) and name.startswith("_"):
            raise SecurityError(f"a namespace has no attribute {name!r}, as it begins with an underscore")

    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                         extensions=[Generation, loopcontrols])
    made.filters["tojson"] = tojson
    made.globals.update(raise_exception=refuse, strftime_now=strftime_now, dict=TemplateDict(),
                        namespace=TemplateNamespace)
    return made
