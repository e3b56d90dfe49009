"""Pages stay short, answer a newcomer's questions within two clicks, and say in one place what a GPU has run."""

import re
from pathlib import Path

import pytest
from markdown.extensions.toc import slugify

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
OUTSIDE = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "hardware" / "README.md",
           *sorted((ROOT / "bench").rglob("README.md"))]

# All pages had 65,000 words when they said much twice; half of that is enough. A page of more than some
# 2,000 words is read by nobody from its beginning.
MOST_WORDS = 34_500
MOST_WORDS_OF = {"README.md": 1_000, "CONTRIBUTING.md": 2_000, "docs/results.md": 900,
                 "docs/any-model.md": 2_500}  # this one lists 189 families
MOST_WORDS_OF_OTHERS = 1_900

BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^):#]*)(?:#([^)]*))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
# A sentence that says that something has not been on a GPU.
CLAIM = re.compile(r"\bno (?:job of several )?GPUs? (?:has|have|had|was|were)\b"
                   r"|\b(?:not|never)(?: yet)?(?: been)? (?:run|ran|tried|seen|measured|tested)[^.|]{0,30}"
                   r" on (?:a |any |several )?GPUs?\b"
                   r"|\bGPUs?\b[^.|]{0,60} (?:has|have) not(?: yet)? been (?:run|tried|seen|measured|tested)",
                   re.IGNORECASE)
SEEN = DOCS / "devices.md"
SEEN_TITLE = "What a GPU has run"
SEEN_LINK = "devices.md#what-a-gpu-has-run"
NOT_YET = "not yet"
GPU_PAGES = sorted(path for folder in (ROOT / "bench").glob("gpu*") for path in folder.glob("*.md"))


def text_of(path):
    return path.read_text(encoding="utf-8")


def words(path):
    """Their number, counted as wc -w does."""
    return len(text_of(path).split())


def name(path):
    return str(path.relative_to(ROOT))


def anchors(page):
    return {slugify(re.sub(r"[`*]|\]\([^)]*\)|\[", "", title), "-") for title in HEADING.findall(BLOCK.sub("", page))}


def links(path):
    """(file, anchor) of the pages that a page links to."""
    found = [((path.parent / file).resolve() if file else path, anchor)
             for file, anchor in LINK.findall(BLOCK.sub("", text_of(path)))]
    return [(file, anchor) for file, anchor in found if file.suffix == ".md"]


def section(page, title):
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(text):
    """The cells of the tables' rows, without heads."""
    lines = [line.strip() for line in text.splitlines()]
    return [[cell.strip() for cell in line.strip("|").split("|")]
            for head, line in zip(lines, lines[1:], strict=False)
            if line.startswith("|") and head.startswith("|") and not line.startswith("|---")]


# ---- words

def test_all_pages_together_are_short():
    assert sum(map(words, PAGES)) <= MOST_WORDS


@pytest.mark.parametrize("path", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES], ids=name)
def test_a_page_is_short(path):
    assert words(path) <= MOST_WORDS_OF.get(name(path), MOST_WORDS_OF_OTHERS)


# Lists, references, and the walk through the code.
BEGIN_WITHOUT = {"index.md", "questions.md", "results.md", "commands.md", "run-file.md", "reference.md", "reference-cpp.md",
                 "life-of-a-step.md"}


@pytest.mark.parametrize("path", [page for page in PAGES if page.name not in BEGIN_WITHOUT], ids=name)
def test_a_page_begins_with_what_runs(path):
    assert "\n```" in text_of(path).partition("\n## ")[0]


# ---- clicks

def within_two_clicks():
    first = {file for file, _ in links(ROOT / "README.md")}
    return first | {file for page in first for file, _ in links(page)}


QUESTIONS = rows(text_of(DOCS / "questions.md").partition("\n## ")[0])


def test_newcomers_ask_ten_questions():
    assert len(QUESTIONS) == 10


@pytest.mark.parametrize("question, answer", QUESTIONS)
def test_a_question_is_answered_within_two_clicks(question, answer):
    """By a page that the answer links to, which has what the answer names as code."""
    assert question.endswith("?")
    pages = [(DOCS / file, anchor) for file, anchor in LINK.findall(answer)]
    assert pages
    assert [file for file, _ in pages if file.resolve() not in within_two_clicks()] == []
    assert [anchor for file, anchor in pages if anchor and anchor not in anchors(text_of(file))] == []
    for code in re.findall("`([^`]+)`", answer):
        assert any(code in text_of(file) for file, _ in pages), code


def test_every_page_of_the_site_is_within_two_clicks():
    assert [name(page) for page in PAGES if page not in within_two_clicks()] == [
        "docs/index.md"]  # where the site itself begins


@pytest.mark.parametrize("path", [*OUTSIDE, *PAGES], ids=name)
def test_pages_and_parts_that_a_page_links_to_exist(path):
    """mkdocs sees those of the site alone."""
    assert [(name(file), anchor) for file, anchor in links(path)
            if not file.exists() or anchor and anchor not in anchors(text_of(file))] == []


# ---- what a GPU has run

def claims(text):
    """The sentences that say of something that it has not been on a GPU, without a link to the table of it."""
    sentences = re.split(r"(?<=[.!?:|])\s|\n\n|\n(?=[-|#])", BLOCK.sub("", text))
    return [" ".join(sentence.split()) for sentence in sentences
            if CLAIM.search(" ".join(sentence.split())) and SEEN_LINK not in sentence]


def stale(table, measured):
    """The parts that a table says no GPU has run, and of which there is a row of figures."""
    return [part for cells in rows(table) if cells[1] == NOT_YET for part in re.split(r"[,:] ", cells[0])
            if any(part.lower() in cell.lower() for line in rows(measured) for cell in line)]


@pytest.mark.parametrize("path", [*OUTSIDE, *(page for page in PAGES if page != SEEN)], ids=name)
def test_no_page_says_what_no_gpu_has_run_but_one(path):
    assert claims(text_of(path)) == []


def test_no_comment_says_what_no_gpu_has_run():
    files = [path for top in ("slimpack", "apps", "python", "examples", "hardware", "tools")
             for path in (ROOT / top).rglob("*") if path.suffix in (".h", ".cpp", ".cu", ".py", ".toml", ".sh")]
    assert len(files) > 300
    found = {name(path): claims(re.sub(r"^[ #/]+", "", text_of(path), flags=re.MULTILINE)) for path in files}
    assert {file: sentences for file, sentences in found.items() if sentences} == {}


def test_no_part_that_a_gpu_has_run_is_said_to_wait_for_one():
    table = section(text_of(SEEN), SEEN_TITLE)
    assert [cells[0] for cells in rows(table) if cells[1] == NOT_YET]
    assert GPU_PAGES
    assert stale(table, "\n".join(map(text_of, GPU_PAGES))) == []


def test_what_a_gpu_has_run_has_figures_of_this_gpu():
    for part, seen, figures in rows(section(text_of(SEEN), SEEN_TITLE)):
        pages = [text_of((DOCS / file).resolve()) for file, _ in LINK.findall(figures)]
        assert pages if seen != NOT_YET else not figures, part
        for gpu in [] if seen == NOT_YET else seen.split(", "):
            assert any(gpu in page for page in pages), (part, gpu)


@pytest.mark.parametrize("text", [
    "No GPU has run these\nkernels yet.", "This was never run on a GPU.", "It has not been tried on GPUs.",
    "Experts on GPUs have not been tried yet.", "No job of several GPUs has been measured.",
    "| a | not yet measured on a GPU |"])
def test_a_claim_is_found(text):
    assert claims(f"Before. {text} Behind.") != []
    assert claims(f"Before. {text.rstrip('.|')} ([which]({SEEN_LINK})). Behind.") == []


@pytest.mark.parametrize("text", [
    "No GPU is needed.", "It needs no GPU.", "Steps on one GPU were measured.", "A GPU has run them.",
    "```sh\nNo GPU has run these.\n```"])
def test_other_sentences_are_no_claims(text):
    assert claims(f"Before.\n{text}\nBehind.") == []


def test_a_stale_row_is_found():
    table = "| part | on a GPU |\n|---|---|\n| fused kernels of ours, NCCL | not yet |\n| FlashAttention-2 | H200 |\n"
    measured = "| step | time |\n|---|---|\n| H200: Fused kernels of ours | 5.9 s |\n| H200: FlashAttention-2 | 6 s |\n"
    assert stale(table, measured) == ["fused kernels of ours"]
    assert stale(table, measured.replace("Fused kernels", "No kernels")) == []
