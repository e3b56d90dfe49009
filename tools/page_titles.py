"""A hook of MkDocs (mkdocs.yml): links that show a file, such as [planner.md](planner.md), show on
the site what the page is called there."""

import re

LINK = re.compile(r"\[[\w-]+\.md\]\(([\w-]+\.md)")


def on_page_markdown(markdown, config, **_):
    """Called by MkDocs for every page."""
    titles = dict(pages(config.nav))
    return LINK.sub(lambda match: f"[*{titles[match[1]]}*]({match[1]}", markdown)


def pages(nav):
    """Files and titles, of sections too."""
    for entry in nav:
        for title, item in entry.items():
            yield from [(item, title)] if isinstance(item, str) else pages(item)
