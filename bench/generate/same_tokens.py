"""Answers side by side."""


def same_tokens(mine, theirs):
    """With how many tokens both begin alike; all where they are the same."""
    return next((i for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b), len(mine))
