"""How the processes of a job connect."""

import os


def connect_late():
    """Lets Gloo connect two ranks with their first message. Otherwise it connects all pairs of a group
    when that is made: a million of a job of a thousand ranks. Called before any group is made."""
    os.environ.setdefault("TORCH_GLOO_LAZY_INIT", "1")
