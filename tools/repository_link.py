"""A hook of MkDocs (mkdocs.yml): the site links to the repository that it is built from, which is git's
remote `origin` where that has an address on the web."""

import re
import subprocess
from pathlib import Path

ADDRESS = re.compile(r"(?:https?://(?:[^@/]*@)?|(?:ssh://)?git@)([\w.-]+)[:/](.+?)(?:\.git)?/?")


def on_config(config):
    """Called by MkDocs once, before it builds."""
    root = Path(config.config_file_path).parent
    done = subprocess.run(["git", "-C", root, "remote", "get-url", "origin"], capture_output=True,
                          text=True, check=False)
    config.repo_url = config.repo_url or web_address(done.stdout.strip())
    return config


def web_address(remote):
    """The page of a remote such as git@host:owner/name.git; None of a folder."""
    found = ADDRESS.fullmatch(remote)
    return f"https://{found[1]}/{found[2]}" if found else None
