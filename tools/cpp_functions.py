"""Finds function bodies in C++ text by matching braces: no parser, but sound on formatted code.

Steps: (1) blank comments, literals and preprocessor lines, so that every brace left is code;
(2) walk the braces with a stack; what stands between the last statement and a brace (its head)
says whether it opens a scope (namespace, class), a function, or a braced value.
"""

import re
from dataclasses import dataclass

_NOT_CODE = re.compile(
    r"""//[^\n]*
      | /\*.*?\*/
      | R"(?P<delimiter>[^()\\\s]*)\(.*?\)(?P=delimiter)"
      | "(?:\\.|[^"\\\n])*"
      | (?P<number>\b\d[\w.']*)
      | '(?:\\.|[^'\\\n])+'
      | ^[ \t]*\#(?:\\\n|[^\n])*""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_TYPE = re.compile(r"\b(class|struct|union|enum)\b")
_NAME = re.compile(r"(operator\s*(?:\(\)|[^\s\w(]+)|~?\w+(?:::~?\w+)*)\s*\(")
_ACCESS = re.compile(r"\s*((public|private|protected)\s*:(?!:)\s*)*")
_INITIALIZED_MEMBER = re.compile(r"\)\s*(noexcept\s*)?:(?!:).*[\w>]\s*$", re.DOTALL)


@dataclass
class Function:
    name: str
    begin: int  # line of the first line of the signature, from 1
    end: int  # line of the closing brace

    @property
    def lines(self) -> int:
        return self.end - self.begin + 1


def functions_in(text: str) -> list[Function]:
    """Function definitions (tests and members included) in the order in which they end. Lambdas and
    local types inside a function are part of it."""
    code = _NOT_CODE.sub(_blank, text)
    functions = []
    stack = []  # (kind, name, line of the head), outermost first
    head_start = 0
    for match in re.finditer(r"[{};]", code):
        at, token = match.start(), match.group()
        if token == "{":
            begin = _ACCESS.match(code, head_start, at).end()
            head = code[begin:at]
            kind = _kind(head, [entry[0] for entry in stack])
            stack.append((kind, _name(head), _line(code, begin)))
            if kind == "value":
                continue
        elif token == "}" and stack:
            kind, name, begin = stack.pop()
            if kind == "function":
                functions.append(Function(name, begin, _line(code, at)))
            if kind == "value":
                continue
        elif token == ";" and stack and stack[-1][0] == "value":
            continue
        head_start = at + 1
    return functions


def _blank(match: re.Match) -> str:
    if match.group("number"):
        return match.group()
    return "\n" * match.group().count("\n") + " "


def _kind(head: str, outer: list[str]) -> str:
    """The kind of scope that a brace after `head` opens: "scope", "function", or "inner" and
    "value" (ignored)."""
    if outer and outer[-1] != "scope":
        return outer[-1] if outer[-1] == "value" else "inner"
    signature = _without_template_parameters(head)
    before_parenthesis = signature.split("(")[0]
    if "(" not in signature or _TYPE.search(before_parenthesis):
        is_scope = _TYPE.search(before_parenthesis) or re.search(r"\b(namespace|extern)\b", head)
        return "scope" if is_scope else "value"
    if head.rstrip().endswith(("(", ",", "=")) or _INITIALIZED_MEMBER.search(head):
        return "value"
    return "function"


def _without_template_parameters(head: str) -> str:
    head = head.strip()
    while head.startswith("template"):
        depth = 0
        for at, character in enumerate(head):
            depth += {"<": 1, ">": -1}.get(character, 0)
            if character == ">" and depth == 0:
                head = head[at + 1:].strip()
                break
        else:
            break
    return head


def _name(head: str) -> str:
    match = _NAME.search(_without_template_parameters(head))
    return match.group(1) if match else "?"


def _line(code: str, at: int) -> int:
    return code.count("\n", 0, at) + 1
