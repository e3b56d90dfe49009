"""A hook of MkDocs (mkdocs.yml): words that readers search for and pages do not say in their titles, and
how much less the references count. Material's search looks at a page's tags before all else, so a word
belongs to one page alone."""

WORDS = {
    "any-model.md": ["exact"],
    "checkpoints.md": ["resume", "continue", "NaN", "diverges"],
    "datasets.md": ["dataset"],
    "fit.md": ["OOM", "out of memory"],
    "fine-tuning.md": ["SFT", "chats"],
    "install.md": ["install"],
    "lora.md": ["LoRA"],
    "processes.md": ["multi-node", "machines", "hangs"],
    "tutorial.md": ["gain"],
}
BOOSTS = {"reference.md": 0.2, "reference-cpp.md": 0.1}


def on_page_markdown(_, page, **__):
    """Called by MkDocs for every page."""
    name = page.file.src_uri
    page.meta["tags"] = WORDS.get(name, [])
    page.meta["search"] = {"boost": BOOSTS.get(name, 1)}
