"""One step under several planners."""

from slimpack.report import Report


class Comparison(Report):
    """Made by `Job.compare`. `rows` has a dict for each planner: tokens_per_second, mfu, bubble,
    makespan_ns, peak_bytes, gap, fits, error, planning_seconds. Rows of other planners, which are
    tuned, also have tuning, published_peak_bytes and published_makespan_ns. published_makespan_ns is
    missing where the published setting is above the memory cap that the tuned one keeps."""

    @property
    def rows(self):
        return self.figures["cases"]

    def __getitem__(self, planner):
        """The row of a planner."""
        for row in self.rows:
            if row["planner"] == planner:
                return row
        raise KeyError(planner)

    def speedup(self, over):
        """How many times as fast our step is as that planner's; None where one of them cannot run."""
        ours, other = self["slimpack"]["makespan_ns"], self[over]["makespan_ns"]
        return other / ours if ours and other else None

    def __repr__(self):
        return f"<slimpack.Comparison of {', '.join(row['planner'] for row in self.rows)}>"
