"""Whether a job fits its machine."""

import html
import json


class Fit:
    """Made by `Job.fit`. `figures` has the printed figures, by stage, and the changed jobs that fit."""

    def __init__(self, json_text, table):
        self.figures = json.loads(json_text)
        self._table = table

    def __bool__(self):
        """Whether the job fits as it is."""
        return self.figures["fits"]

    @property
    def options(self):
        """Changed jobs that fit, mildest first: dicts with "settings" and what they take."""
        return self.figures["options"]

    def __str__(self):
        return self._table

    def __repr__(self):
        return f"<slimpack.Fit: {'fits' if self else f'does not fit, {len(self.options)} options'}>"

    def _repr_html_(self):
        return f"<pre>{html.escape(self._table)}</pre>"
