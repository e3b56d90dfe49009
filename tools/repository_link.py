"""A hook of MkDocs (mkdocs.yml): the site links to the repository that it is built from, which is git's
remote `origin` where that has an address on the web. Links to files outside of `docs` go there, too."""

import re
import subprocess
from pathlib import Path

ADDRESS = re.compile(r"(?:https?://(?:[^@/]*@)?|(?:ssh://)?git@)([\w.-]+)[:/](.+?)(?:\.git)?/?")
OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./([^)#]*)(#[^)]*)?\)")


def on_config(config):
    """Called by MkDocs once, before it builds."""
    root = Path(config.config_file_path).parent
    done = subprocess.run(["git", "-C", root, "remote", "get-url", "origin"], capture_output=True,
                          text=True, check=False)
    config.repo_url = config.repo_url or web_address(done.stdout.strip())
    return config


def on_page_markdown(markdown, config, **_):
    """Called by MkDocs for every page."""
    return with_links_outside(markdown, config.repo_url)


def with_links_outside(markdown, repository):
    """Links to files outside of `docs` lead to the repository; without one they name the file."""
    if repository:
        return OUTSIDE.sub(rf"[\1]({repository.rstrip('/')}/blob/HEAD/\2\3)", markdown)
    return OUTSIDE.sub(lambda link: link[1] if link[1].strip("`") in link[2] else f"{link[1]} (`{link[2]}`)", markdown)


def web_address(remote):
    """The page of a remote such as git@host:owner/name.git; None of a folder."""
    found = ADDRESS.fullmatch(remote)
    return f"https://{found[1]}/{found[2]}" if found else None
