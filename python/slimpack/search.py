"""Results of a search over layouts, or over choices of one layout."""

from slimpack.report import Report


class Layouts(Report):
    """Made by `Job.layout`. `rows` has a dict for each tp × pp × dp, the fastest first: tp, pp, dp, zero,
    stages_per_rank, spread_vocabulary, settings, outcome, and of rated ones tokens_per_second, mfu,
    makespan_ns, headroom_bytes, …"""

    @property
    def rows(self):
        return self.figures["searches"][0]["layouts"]

    @property
    def best(self):
        """The row of the fastest layout; None where none fits."""
        first = self.rows[0]
        return first if first["outcome"] == "rated" else None

    def __repr__(self):
        return f"<slimpack.Layouts: {len(self.rows)}>"


class Sweep(Report):
    """Made by `Job.sweep`. `rows` has a dict for each combination: values, fits, and makespan_ns, bubble,
    peak_bytes, … or why it does not fit."""

    @property
    def rows(self):
        return self.figures["points"]

    @property
    def best(self):
        """The row with the most tokens a second; None where none fits."""
        at = self.figures["best"]
        return None if at is None else self.rows[at]

    def __repr__(self):
        return f"<slimpack.Sweep of {len(self.rows)} points>"
