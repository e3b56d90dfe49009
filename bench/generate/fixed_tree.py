"""The size of trees with which EAGLE-3's fixed rule is fastest on a machine."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class TreeSize:
    """The size of a fixed tree. The defaults are those published for GPUs, where rows cost little."""

    draft_rows: int = 60
    draft_depth: int = 6
    draft_width: int = 10


CHOICES = {"draft_rows": (4, 8, 16, 32), "draft_depth": (2, 3, 4, 6, 8, 12)}


def fastest_tree(seconds, widths):
    """Found by changing one number at a time, until no change of one helps. seconds: of a TreeSize."""
    needed = {TreeSize(): seconds(TreeSize())}
    best, before = TreeSize(), None
    while best != before:
        before = best
        for name, values in {"draft_width": widths, **CHOICES}.items():
            for tried in [dataclasses.replace(best, **{name: value}) for value in values]:
                if tried not in needed:
                    needed[tried] = seconds(tried)
                if needed[tried] < needed[best]:
                    best = tried
    return best
