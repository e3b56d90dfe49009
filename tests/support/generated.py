"""How many cases hypothesis generates for a property: a share of them in a sampled run (tests/conftest.py)."""

import os

from hypothesis import settings

LEAST = 10


def examples(count, **options):
    """A decorator: `count` examples in a full run. The other options are those of hypothesis' settings."""
    every = int(os.environ.get("SLIMPACK_SAMPLE", "1"))
    return settings(max_examples=max(count // every, min(count, LEAST)), deadline=None, **options)
