"""The size of trees with which EAGLE-3's fixed rule is fastest on a machine."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class TreeSize:
    """As published for GPUs, where rows cost little."""

    draft_rows: int = 60
    draft_depth: int = 6
    draft_width: int = 10


CHOICES = {"draft_rows": (4, 8, 16, 32), "draft_depth": (2, 3, 4, 8), "draft_width": (2, 4)}


def fastest_tree(seconds):
    """Found by changing one number at a time. seconds: of a TreeSize."""
    best, least = TreeSize(), seconds(TreeSize())
    for name, values in CHOICES.items():
        for tried in [dataclasses.replace(best, **{name: value}) for value in values]:
            needed = seconds(tried)
            if needed < least:
                best, least = tried, needed
    return best
