"""The documentation's site builds without a warning, its search finds the right page first, commands of pages name
options and keys that there are, and the program draws the pictures."""

import functools
import html
import http.server
import json
import re
import shlex
import shutil
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright
from processes import BUILD

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from command_reference import printed  # noqa: E402
from draw_docs import PICTURES  # noqa: E402
from repository_link import web_address, with_links_outside  # noqa: E402


BLOCK = re.compile(r'^```(\w+)(?: title="[^"]*")?\n(.*?)^```', re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CHROMIUM = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
# Newcomers search for these words; this page answers them.
SEARCHED = {
    "loss is NaN": "checkpoints", "out of memory": "fit", "OOM": "fit", "resume on fewer GPUs": "checkpoints",
    "is my model exact": "any-model", "install without GPU": "install", "fine-tune on chats": "fine-tuning",
    "several machines": "processes", "multi node": "processes", "which layout is fastest": "layout",
    "my own dataset": "datasets", "how accurate are predictions": "prediction", "lora": "lora",
    "what do I gain": "tutorial", "keep my trainer": "trainer", "wandb": "metrics",
}
# Axes of a sweep that are no keys of a run file.
AXES = {"packs", "taper", "order"}


def help_of(command):
    return printed(command, BUILD)


@pytest.fixture(name="site", scope="module")
def fixture_site(tmp_path_factory):
    """(folder, exit code, what mkdocs said). It counts the warnings that it prints: --quiet hides them."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
                          cwd=ROOT, capture_output=True, text=True, check=False)
    return folder, done.returncode, done.stdout + done.stderr


def blocks(*languages):
    """(page, block) of all pages."""
    return [(page.name, block) for page in PAGES for language, block in BLOCK.findall(page.read_text(encoding="utf-8"))
            if language in languages]


def commands_in(block):
    """The commands of a block as words, from the program's name on; what stands behind a pipe or a `;` is another."""
    lines = block.replace("\\\n", " ").splitlines()
    words = [word for line in lines for word in [*shlex.split(line, comments=True), ";"]]
    commands = [[]]
    for word in words:
        if word in (";", "|", "&&", "&", "do", "done", ">", "<"):
            commands.append([])
        else:
            commands[-1].append(word)
    return [command for command in commands if command]


def own_command(words):
    """(name in docs/commands.md, arguments) of one of our commands, or None."""
    text = " ".join(words)
    found = re.search(r"(?:^|-m )(slimpack\.\w+|slimpack(?: data)? \w+)(?: |$)(.*)", text)
    return (found[1].removeprefix("slimpack "), found[2].split()) if found else None


def unknown_options(helps, block):
    """The options of the block's commands that their helps lack. `helps`: texts by command."""
    found = [own_command(words) for words in commands_in(block)]
    return [(name, option) for name, arguments in filter(None, found) if name in helps
            for option in (word.partition("=")[0] for word in arguments)
            if re.fullmatch(r"--[a-z][\w-]*", option) and not re.search(rf"{option}(?![\w-])", helps[name])]


def named_keys(block):
    """The keys that the block's commands set or sweep, by their sections if these are given."""
    for words in commands_in(block):
        for option, value in zip(words, words[1:], strict=False):
            if option in ("--set", "--over"):
                yield value.partition("=")[0]


def known_keys():
    """section.key of a run file."""
    section, keys = None, set()
    for line in help_of("slimpack train --print-config").splitlines():
        if found := re.fullmatch(r"(?:# )?\[(\w+)\]", line):
            section = found[1]
        elif found := re.match(r"(?:# )?(\w+) = ", line):
            keys.add(f"{section}.{found[1]}")
    return keys


def text_of(page):
    """The text that a reader sees of a page in HTML."""
    return html.unescape(re.sub(r"<[^>]*>", "", page.read_text(encoding="utf-8")))


def test_the_site_builds_without_a_warning(site):
    tmp_path, code, said = site
    assert code == 0, said
    python = text_of(tmp_path / "reference" / "index.html")
    assert "SlimPackSampler" in python and "max_tokens: no micro-batch holds more." in python
    headers = text_of(tmp_path / "reference-cpp" / "index.html")
    assert "Slices that run as one scheduling unit of one pass." in headers
    assert "struct MicroPack {\n  std::vector<Slice> slices;" in headers
    commands = text_of(tmp_path / "commands" / "index.html")
    listed = re.findall(r"^  (\w+) {2,}", help_of("slimpack --help"), re.MULTILINE)
    assert len(listed) > 10
    for command in listed:
        assert f"slimpack {command}" in commands, command
    assert "auto|CHECKPOINT" in commands and "slimpack train --help" not in commands
    keys = re.findall(r"^(?:# )?(\w+) = ", printed("slimpack train --print-config", BUILD), re.MULTILINE)
    cells = re.findall(r"<tr>\s*<td><code>(\w+)</code></td>",
                       (tmp_path / "run-file" / "index.html").read_text(encoding="utf-8"))
    assert cells == keys and len(keys) > 60
    found = json.loads((tmp_path / "search" / "search_index.json").read_text(encoding="utf-8"))
    for word in ("SFT", "LoRA", "wandb", "Slurm"):
        assert any(word in part["text"] + part["title"] for part in found["docs"]), word
    named = {page.parent.name: re.findall(r">[\w-]+\.md(?=<)", page.read_text(encoding="utf-8"))
             for page in tmp_path.rglob("index.html")}
    assert {page: files for page, files in named.items() if files} == {}  # a reader sees titles
    assert [page for page in tmp_path.rglob("index.html") if 'href="../../' in page.read_text(encoding="utf-8")] == []


class Files(http.server.SimpleHTTPRequestHandler):
    """Files, without a line for each."""

    def log_message(self, *_):
        pass


@pytest.fixture(name="page")
def fixture_page(site):
    """The site's first page in Chromium. Search needs a server, and no other."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=site[0])) as server:
        threading.Thread(target=server.serve_forever).start()
        with sync_playwright() as playwright:
            page = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"]).new_page()
            address = f"http://127.0.0.1:{server.server_port}/"
            elsewhere = []
            page.on("request", lambda request: elsewhere.append(request.url)
                    if not request.url.startswith((address, "data:", "blob:")) else None)
            page.goto(address, wait_until="networkidle")
            yield page
        server.shutdown()
    assert elsewhere == []


def first_found(page, words):
    """The page that the site's search finds first."""
    field, item = page.locator(".md-search__input"), page.locator(".md-search-result__item")
    for text, state in (("", "detached"), (words, "attached")):
        field.fill(text)
        field.press("End")  # the search begins with a key
        item.first.wait_for(state=state)
    return item.first.locator("a").first.get_attribute("href").partition("?")[0].rstrip("/").rpartition("/")[2]


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium; on Debian tools/setup.sh installs it")
def test_what_newcomers_search_for_is_found_first(page):
    page.locator(".md-search__input").click()
    assert {words: first_found(page, words) for words in SEARCHED} == SEARCHED


def helps_of(site):
    """The helps that docs/commands.md shows, by command."""
    page = (site[0] / "commands" / "index.html").read_text(encoding="utf-8")
    return {html.unescape(title): html.unescape(re.sub(r"<[^>]*>", "", text))
            for title, text in re.findall(r'<h2 id="[^"]*">([^<]*)<.*?</h2>(.*?)(?=<h2|</article>)', page, re.DOTALL)}


def test_commands_of_pages_name_options_that_there_are(site):
    helps = {name: text for name, text in helps_of(site).items() if name != "draft"}  # that has commands of its own
    assert len(helps) > 12 and all("--" in text for text in helps.values())
    assert sum(bool(own_command(words)) for _, block in blocks("sh") for words in commands_in(block)) > 60
    unknown = {(page, *found) for page, block in blocks("sh") for found in unknown_options(helps, block)}
    assert unknown == set()


def test_an_option_that_there_is_not_is_found():
    helps = {"fit": "--lengths FILE", "slimpack.worker": "--set"}
    block = "export A=b && slimpack fit run.toml \\\n  --length x --lengths=y | head\ntorchrun -m slimpack.worker run.toml --sett a.b=1\n"
    assert unknown_options(helps, block) == [("fit", "--length"), ("slimpack.worker", "--sett")]


def test_scripts_of_pages_have_the_options_that_are_named():
    named = [(page, word, words[at:]) for page, block in blocks("sh") for words in commands_in(block)
             for at, word in enumerate(words) if re.fullmatch(r"(?:examples|bench|tools)/[\w/]+\.py", word)]
    assert len(named) > 5
    texts = {script: (ROOT / script).read_text(encoding="utf-8") for _, script, _ in named}
    assert [(page, script, option) for page, script, words in named for option in words
            if option.startswith("--") and f'"{option}"' not in texts[script]] == []


def test_python_of_pages_is_python():
    found = blocks("python")
    assert len(found) > 20
    for page, block in found:
        compile(block, page, "exec")


def test_commands_and_run_files_of_pages_name_keys_that_there_are():
    keys = known_keys()
    names = {key.partition(".")[2] for key in keys} | AXES
    assert len(keys) > 60
    set_here = [(page, key) for page, block in blocks("sh") for key in named_keys(block)]
    assert len(set_here) > 20
    files = [(page, f"{section}.{key}") for page, block in blocks("toml")
             for section, values in tomllib.loads(block).items() for key in values]
    assert len(files) > 20
    assert [(page, key) for page, key in set_here + files if key not in (keys if "." in key else names)] == []


@pytest.mark.parametrize("remote, page", [
    ("git@host.org:owner/name.git", "https://host.org/owner/name"),
    ("ssh://git@host.org/owner/name.git", "https://host.org/owner/name"),
    ("https://user:secret@host.org/owner/name", "https://host.org/owner/name"),
    ("http://host.org/owner/name.git/", "https://host.org/owner/name"),
    ("/srv/git/name.git", None), ("../name", None), ("", None)])
def test_the_site_links_to_the_page_of_a_remote(remote, page):
    assert web_address(remote) == page


@pytest.mark.parametrize("repository, shown", [
    ("https://host.org/a/b", "see [published](https://host.org/a/b/blob/HEAD/bench/published/README.md#bounds) and [x](y.md)"),
    (None, "see published and [x](y.md)")])
def test_links_to_files_outside_of_the_site_lead_to_the_repository(repository, shown):
    assert with_links_outside("see [published](../bench/published/README.md#bounds) and [x](y.md)", repository) == shown


def test_without_a_repository_a_file_outside_of_the_site_is_named():
    assert with_links_outside("[figures](../hardware/README.md)", None) == "figures (`hardware/README.md`)"


def test_every_picture_is_drawn_by_the_program():
    assert {picture.name for picture in (ROOT / "docs" / "images").iterdir()} == set(PICTURES)


@pytest.mark.parametrize("name", [
    "packed-and-sliced.svg", "sweep.svg", "tutorial.svg",
    pytest.param("layouts.svg", marks=pytest.mark.whole)])  # a minute
def test_pictures_are_what_the_program_draws(name):
    assert PICTURES[name](BUILD / "slimpack") == (ROOT / "docs" / "images" / name).read_text(encoding="utf-8"), \
        "write it with tools/draw_docs.py build/release/python write"
