"""The C++ reference: a hook of MkDocs (mkdocs.yml) that expands headers.

Where a paragraph of a page is the path of a header alone, in backticks, what the header declares
takes its place: the header's first comment, then each declaration in a block of code under its
comment. Bodies of functions and private members are left out. Headers must have the form that
clang-format gives them.
"""

import html
import re
from pathlib import Path

HEADER = re.compile(r"^`(slimpack/[\w/]+\.h)`$", re.MULTILINE)
NAMESPACE = re.compile(r"^namespace slimpack \{\n(.*)^\}  // namespace slimpack$",
                       re.MULTILINE | re.DOTALL)
NOT_CODE = re.compile(r'//.*|"(?:\\.|[^"\\])*"')
FORWARD_DECLARATION = re.compile(r"(?:struct|class) \w+;")
PRIVATE = re.compile(r"\n+ (?:private|protected):\n.*?(?=^\};)", re.MULTILINE | re.DOTALL)
BODY_IN_LINE = re.compile(r"(\)(?: const)?)(?: : [^{\n]*)? \{(?: .* )?\}$", re.MULTILINE)
BODY_OF_LINES = re.compile(r"^( *)(\S.*\)(?: const)?) \{\n(?:\1 .*\n|\n)*\1\}$", re.MULTILINE)
NAME = re.compile(r"^(?!template|[ }#]).*?"
                  r"(?:\b(?:struct|class|using) (\w+)|(\w+)\(|\b(k[A-Z]\w*) =)", re.MULTILINE)
NAME_IN_PROSE = re.compile(r"(?<!\w)(?:\w+(?:_|::)\w+|k[A-Z][a-z]\w*)"
                           r"(?:\(\)|\[[^\]]*\]|\.h)?(?!\w)")
NODISCARD = re.compile(r"\[\[nodiscard\]\] (.*(?:\n {15}.*)*)")


def on_page_markdown(markdown, config, **_):
    """Called by MkDocs for every page."""
    root = Path(config.config_file_path).parent
    return HEADER.sub(lambda match: reference(match[1], (root / match[1]).read_text()), markdown)


def reference(path, text):
    """The header's declarations, as Markdown below a heading of the second level."""
    about = re.match(r"(?://.*\n)+", text)[0]
    parts = [f"## `{path}`", prose([line[3:] for line in about.splitlines()])]
    for comment, code in declarations(NAMESPACE.search(text)[1].splitlines()):
        parts += [f"### {', '.join(names(code))}", prose(comment), f"```cpp\n{code}\n```"]
    return "\n\n".join(part for part in parts if part)


def declarations(lines):
    """Pairs: the lines of a comment, and the code that stands below it without a blank line."""
    comment, code, depth = [], [], 0
    for line in [*lines, ""]:
        starts_another = depth == 0 and (not line or line.startswith("///"))
        if starts_another and code:
            shown = declared("\n".join(code))
            if not FORWARD_DECLARATION.match(shown):
                yield comment, shown
            comment, code = [], []
        if starts_another:
            comment += [line[4:]] if line else []
        else:
            code.append(line)
        bare = NOT_CODE.sub("", line)
        depth += sum(map(bare.count, "{(")) - sum(map(bare.count, "})"))


def declared(code):
    """The code as its users need it: without private members, bodies and attributes."""
    code = PRIVATE.sub("\n", code)
    code = BODY_OF_LINES.sub(r"\1\2;", BODY_IN_LINE.sub(r"\1;", code))
    # Parameters of the next lines stay below those of the first.
    return NODISCARD.sub(lambda match: match[1].replace("\n" + 14 * " ", "\n"), code)


def names(code):
    """The names that the code declares, each once."""
    return list(dict.fromkeys(next(filter(None, found)) for found in NAME.findall(code)))


def prose(lines):
    """A comment as Markdown: blank lines around lists, names set as code, and indices, [stage][pack],
    that are no links."""
    text = re.sub(r"(?<=\n)(?= - )", "\n", "\n".join(lines), count=1)
    parts = re.sub(r"(\n +.*\n)(?=\S)", r"\1\n", text).split("`")
    parts[::2] = [NAME_IN_PROSE.sub(r"`\g<0>`", html.escape(part, quote=False).replace("*", r"\*").replace("][", r"]\["))
                  for part in parts[::2]]
    return "`".join(parts)
