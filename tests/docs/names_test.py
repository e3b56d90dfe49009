"""docs/life-of-a-step.md names only what exists; every page names only files that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "life-of-a-step.md"
DRAWING = GUIDE.with_suffix(".svg")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")),
         *sorted((ROOT / "bench").rglob("README.md"))]
SOURCE_FOLDERS = ["slimpack", "apps", "python"]
FOLDERS = [*SOURCE_FOLDERS, "bench", "cmake", "docs", "examples", "hardware", "models", "tests",
           "tools"]

BLOCK = re.compile(r"^```.*?^```|^ {4}[^\n]*$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
PLACEHOLDER = re.compile(r"/[A-Z]+(_|$)")  # tests/ROOM
DRAWN_NAME = re.compile(r">([A-Z]\w+)<")
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
TYPE = re.compile(r"(?<!<)(?<!, )\b(?:struct|class|using)\s+([A-Z]\w*)[^;{=]*[{=]")
FUNCTION = re.compile(r"\b([a-z]\w*)\s*\(")


def spans(page):
    """The words that a page has in backticks, outside of blocks of code."""
    return SPAN.findall(BLOCK.sub("", page))


class Source:
    """The names that the C++ code below a root defines."""

    def __init__(self, root):
        files = [file for folder in SOURCE_FOLDERS for file in sorted((root / folder).rglob("*"))
                 if file.suffix in (".h", ".cpp")]
        self.texts = [file.read_text(encoding="utf-8") for file in files]
        code = "\n".join(COMMENT_OR_STRING.sub("", text) for text in self.texts)
        self.functions = set(FUNCTION.findall(code))
        self.members = {}  # by type
        for match in TYPE.finditer(code):
            self.members.setdefault(match[1], set()).update(re.findall(r"\w+", body(code, match)))

    def has(self, name):
        """Whether it is a type, a function, or as A::b a member of a type."""
        owner, _, member = name.removesuffix("()").rpartition("::")
        if owner:
            return member in self.members.get(owner, ())
        return member in self.members or member in self.functions

    def mentions(self, text):
        return any(text in source for source in self.texts)


def body(code, definition):
    """The text between the braces of a type; nothing of an alias."""
    depth = 1 if definition[0].endswith("{") else 0
    end = definition.end()
    while depth > 0 and end < len(code):
        depth += {"{": 1, "}": -1}.get(code[end], 0)
        end += 1
    return code[definition.end():end]


def missing_files(page, folder, root):
    """Files of the repository that a page in `folder` names or links to and that do not exist."""
    paths = [span for span in spans(page) if re.fullmatch(r"[\w./-]+", span)]
    named = [path for path in paths if "/" in path and path.split("/")[0] in FOLDERS
             and not PLACEHOLDER.search(path)]
    headers = [path for path in paths if "/" not in path and path.endswith((".h", ".cpp"))]
    return ([path for path in named if not (root / path).exists()]
            + [name for name in headers
               if not any(True for top in FOLDERS for _ in (root / top).rglob(name))]
            + [link for link in LINK.findall(page) if not (folder / link).exists()])


def missing_names(page, root):
    """Names in a page that are no file, type, function or member in the source, and no file that
    the program writes. Commands with their arguments are not names."""
    source = Source(root)
    return [span for span in spans(page)
            if " " not in span and not source.has(span)
            and not (("/" in span or "." in span)
                     and ((root / span).exists() or source.mentions(span)))]


def test_every_name_in_the_life_of_a_step_exists():
    page = GUIDE.read_text(encoding="utf-8")
    assert {"Sampler::next_step", "StepPlan", "load_checkpoint"} <= set(spans(page))
    assert missing_names(page, ROOT) == []


def test_every_type_in_its_drawing_exists():
    names = DRAWN_NAME.findall(DRAWING.read_text(encoding="utf-8"))
    assert {"StepPlan", "Engine", "Timeline"} <= set(names)
    source = Source(ROOT)
    assert [name for name in names if not source.has(name)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(page):
    assert missing_files(page.read_text(encoding="utf-8"), page.parent, ROOT) == []


@pytest.fixture(name="tree")
def fixture_tree(tmp_path):
    header = tmp_path / "slimpack" / "data" / "sampler.h"
    header.parent.mkdir(parents=True)
    header.write_text("// OldSampler was drawn_early().\n"
                      "class Forwarded;\n"
                      "template <class Rule, class Order>\n"
                      "class Sampler : public Source<Rule> {\n"
                      "  struct Cursor { int at; };\n"
                      "  Step next_step();\n"
                      "};\n"
                      'inline int read_all() { return open("Quoted"); }\n'
                      'inline const char* kFile = "timeline.json";\n')
    return tmp_path


def test_names_that_the_source_has_are_found(tree):
    page = ("`Sampler`, `Sampler::next_step()`, `Sampler::Cursor` and `read_all` are in\n"
            "`slimpack/data/sampler.h`; `slimpack train FILE` writes `timeline.json`.\n"
            "\n    `Block::of_code`\n\n```sh\n`another`\n```\n")
    assert missing_names(page, tree) == []
    assert missing_files(page, tree, tree) == []


@pytest.mark.parametrize("name", [
    "Smapler",                   # misspelt
    "Sampler::draw",             # a member that is not there
    "Sampler::read_all",         # a function, but no member
    "OldSampler", "drawn_early", # in a comment alone
    "Quoted",                    # in a string alone
    "Forwarded", "Rule",         # declared and never defined
    "slimpack/data/samples.h",   # no such file
])
def test_names_that_the_source_lacks_are_reported(tree, name):
    page = f"`Sampler`\n\n    a block of code\n\n```sh\nanother\n```\n\nand `{name}`"
    assert missing_names(page, tree) == [name]


def test_files_that_do_not_exist_are_reported(tree):
    page = ("```sh\ncode\n```\n\n    code\n\n"
            "`slimpack/data/samples.h`, `samples.h`, `sampler.h` and [a page](docs/gone.md#part), "
            "[the file](slimpack/data/sampler.h), [the web](https://example.org/gone.md)")
    assert missing_files(page, tree, tree) == ["slimpack/data/samples.h", "samples.h",
                                               "docs/gone.md"]
