"""Writes what a run on a GPU found for people: failures first, then figures beside expected ones."""

_NO_FIGURES = {"part", "name", "expected", "good", "where", "failed", "missing", "skipped", "status"}


def summary_of(lines):
    """Failures, what is missing, and how many checks are good."""
    checks = [line for line in lines if "good" in line]
    text = [f"{sum(line['good'] for line in checks)} of {len(checks)} checks good"]
    for line in lines:
        if "failed" in line:
            text.append(f"FAILED {line['name']}: {line['failed']}")
        elif line.get("good") is False:
            text.append(f"BAD {line['name']}: {_figures(line)} ({line.get('expected', '')})")
    for what in ("missing", "skipped"):
        text += [f"{what.upper()} {line['name']}: {line[what]}" for line in lines if what in line]
    return "\n".join(text)


def page_of(lines):
    """A page in Markdown."""
    page = ["# A run on a GPU", "", "```text", summary_of(lines), "```"]
    parts = list(dict.fromkeys(line["part"] for line in lines))
    for part in parts:
        page += ["", f"## {part}", "", "| | found | expected |", "|---|---|---|"]
        for line in lines:
            if line["part"] == part and (found := _figures(line)):
                page.append(f"| {_cell(line['name'])} | {_cell(found)} | "
                            f"{_cell(line.get('expected', ''))} |")
    return "\n".join(page) + "\n"


def _figures(line):
    return ", ".join(f"{key} {value}" for key, value in line.items()
                     if key not in _NO_FIGURES and value is not None)


def _cell(text):
    return str(text).replace("|", "\\|")
