"""The Python reference: an extension of griffe (mkdocs.yml) that shows arguments as a list.

In docstrings an argument is a line "name: meaning" or "name, other: meaning" at the beginning of a
paragraph or below another argument. Lines that go on with it are indented, or follow a line that
ends without a full stop.
"""

import re

import griffe

ARGUMENT = re.compile(r"([a-z_]\w*(?:, \w+)*): ")


class ArgumentLists(griffe.Extension):
    """Called by griffe for every object that it has read."""

    def on_object(self, *, obj, **_):
        if obj.docstring:
            obj.docstring.value = with_lists(obj.docstring.value)


def with_lists(docstring):
    """The docstring as Markdown, with its arguments as items of lists."""
    return "\n\n".join(with_list(paragraph) for paragraph in re.split(r"\n{2,}", docstring))


def with_list(paragraph):
    lines = paragraph.split("\n")
    if not ARGUMENT.match(lines[0]):
        return paragraph
    shown, before = [], "."
    for line in lines:
        if argument := ARGUMENT.match(line):
            shown.append(f"- `{argument[1]}`: {line[argument.end():]}")
        elif line.startswith(" ") or not before.endswith("."):
            shown.append(line)
        else:
            shown += ["", line]
        before = line
    return "\n".join(shown)
