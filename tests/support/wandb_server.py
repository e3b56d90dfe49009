"""Reads what the stand-in for wandb (stand_ins/wandb.py) was sent."""

import json
from pathlib import Path

STAND_INS = Path(__file__).parent / "stand_ins"


class WandbServer:
    """A folder that the stand-in sends to. variables: of processes that use it, beside those of `others`."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def variables(self, others, **more):
        path = f"{others['PYTHONPATH']}:{STAND_INS}" if others.get("PYTHONPATH") else str(STAND_INS)
        own = {name: value for name, value in others.items() if not name.startswith("WANDB_")}
        return {**own, "PYTHONPATH": path, "STAND_IN_SERVER": str(self.folder), **more}

    def records(self):
        """The records of the only run that there is."""
        (file,) = self.folder.glob("*.jsonl")
        return [json.loads(line) for line in file.read_text().splitlines()]

    def rows(self):
        """(step, figures) in the order in which they were sent."""
        records = self.records()
        assert not [record for record in records if "dropped" in record]
        return [(step, figures) for record in records if "row" in record for step, figures in [record["row"]]]

    def steps(self):
        return [step for step, _ in self.rows()]


def row_of(lines):
    """The row that the lines of one step become."""
    row = {}
    for line in lines:
        row |= {name: max(value) if isinstance(value, list) else value for name, value in line.items()
                if name not in ("step", "unix_ms", "clock")}
    return row | {"_timestamp": lines[-1]["unix_ms"] / 1000}
