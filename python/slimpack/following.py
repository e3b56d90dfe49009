"""metrics.jsonl, read on while a run writes it."""

import json

from slimpack import InvalidInput
from slimpack.numbers import INT64
from slimpack.text.errors import shown

NOT_SCALARS = ("step", "unix_ms")
INTERVAL = 1.0  # seconds between two looks at a file that is followed


class MetricsFile:
    """metrics.jsonl, read on as whole lines come."""

    def __init__(self, file):
        self.file = file
        self.end = 0  # of the whole lines that were read
        self.last = b""  # of these
        self.lines = 0

    def read(self):
        """The new lines as objects; None when those read before are no longer there, because a run
        has gone back to an earlier checkpoint."""
        with self.file.open("rb") as f:
            f.seek(self.end - len(self.last))
            data = f.read()
        if not data.startswith(self.last):
            return None
        # A line that is half-written is left for later.
        new = data[len(self.last) : data.rfind(b"\n") + 1].splitlines(keepends=True)
        lines = [self.parse(text) for text in new]
        self.end += sum(map(len, new))
        self.last = new[-1] if new else self.last
        return lines

    def parse(self, text):
        self.lines += 1
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            line = None
        step = line.get("step") if isinstance(line, dict) else None
        if type(step) is not int or not 0 <= step <= INT64:
            raise InvalidInput(
                f"{shown(self.file)}:{self.lines}: no line of metrics (a JSON object with a step); name the "
                "folder that a training run has written to (output.dir)"
            )
        return line


def follow(file, sinks, looks):
    """Gives all lines of a metrics file to sinks, at each of the looks those that have come. A file that
    is not there yet is waited for.

    sinks: begin() is called before the first line, and again when a run has gone back and the lines
        come anew; write(lines) with each look's lines.
    """
    source = None
    for _ in looks:
        if source is None and not file.exists():
            continue
        lines = None if source is None else source.read()
        if lines is None:  # now, for this look may be the last one
            source = MetricsFile(file)
            for sink in sinks:
                sink.begin()
            lines = source.read()
        for sink in sinks:
            sink.write(lines)


def read_all(file, sinks):
    """Gives all lines that are there to sinks. Returns how many there are."""
    source = MetricsFile(file)
    try:
        lines = source.read()
    except FileNotFoundError as error:
        raise InvalidInput(
            f"{shown(file)} is not there; name the folder that a training run writes to (output.dir), or "
            "wait for its first step with --follow"
        ) from error
    for sink in sinks:
        sink.begin()
        sink.write(lines)
    return len(lines)


def is_number(value):
    """Whether an event file can hold the value: its numbers have 64 bits."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not (
        isinstance(value, int) and abs(value) > INT64)


def scalars(line):
    """The line's figures by name; of those by rank, the largest. Those of a named set of held-out documents have
    its name behind."""
    result, held_out = {}, line.get("evaluation_name")
    behind = f"/{held_out}" if isinstance(held_out, str) else ""
    for name, value in line.items():
        numbers = [v for v in (value if isinstance(value, list) else [value]) if is_number(v)]
        if numbers and name not in NOT_SCALARS:
            result[name + behind] = max(numbers)
    return result


def written_at(line):
    """When the line was written, in seconds since 1970; None where it does not say."""
    return line["unix_ms"] / 1000 if is_number(line.get("unix_ms")) else None
