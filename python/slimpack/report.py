"""Figures with the table that the program prints of them."""

import html
import json


class Report:
    """`figures` is the program's JSON; as text it is the program's table."""

    def __init__(self, json_text, table):
        self.figures = json.loads(json_text)
        self._table = table

    def __str__(self):
        return self._table

    def _repr_html_(self):
        return f"<pre>{html.escape(self._table)}</pre>"
