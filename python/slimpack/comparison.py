"""One step under several planners."""

import html
import json


class Comparison:
    """Made by `Job.compare`. `rows` has a dict for each planner: tokens_per_second, mfu, bubble,
    makespan_ns, peak_bytes, gap, fits, error, planning_seconds."""

    def __init__(self, json_text, table):
        self.figures = json.loads(json_text)
        self._table = table

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

    def __str__(self):
        return self._table

    def __repr__(self):
        return f"<slimpack.Comparison of {', '.join(row['planner'] for row in self.rows)}>"

    def _repr_html_(self):
        return f"<pre>{html.escape(self._table)}</pre>"
