"""A timeline as a picture: one row a rank, one box a pass of a MicroPack."""

from slimpack import _planner

WIDTH, ROW, GAP, LABEL = 900, 18, 4, 70
COLOURS = {
    "forward": "#4c78a8", "backward": "#f58518", "input_gradient": "#f58518",
    "weight_gradient": "#ffbf79", "optimizer": "#54a24b", "reduce": "#b279a2",
}
MOST_RANKS = 64
MOST_BOXES = 20_000


def timeline_svg(timeline, until_ns=0):
    """SVG text. Its right edge is the end, or later: until_ns, so that pictures may share a scale. Of a
    timeline with more ranks than fit a page, the first ones."""
    ranks = min(timeline.ranks, MOST_RANKS)
    end = max(int(timeline.end.max(initial=0)), 1)
    scale = (WIDTH - LABEL) / max(end, until_ns)
    boxes = []
    spans = zip(timeline.rank.tolist(), timeline.kind.tolist(), timeline.pack.tolist(),
                timeline.start.tolist(), timeline.end.tolist(), strict=True)
    for rank, kind, pack, start, stop in spans:
        name = _planner.span_kinds[kind]
        if rank >= ranks or name not in COLOURS or len(boxes) >= MOST_BOXES:
            continue
        title = name if pack < 0 else f"{name} {pack}"
        boxes.append(
            f'<rect x="{LABEL + start * scale:.2f}" y="{rank * (ROW + GAP)}" '
            f'width="{max((stop - start) * scale, 0.2):.2f}" height="{ROW}" fill="{COLOURS[name]}">'
            f"<title>{title}: {start / 1e6:.3f} to {stop / 1e6:.3f} ms</title></rect>")
    labels = [f'<text x="0" y="{rank * (ROW + GAP) + ROW - 5}">rank {rank}</text>' for rank in range(ranks)]
    hidden = "" if ranks == timeline.ranks else f" (first {ranks} of {timeline.ranks} ranks)"
    height = ranks * (ROW + GAP) + 24
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="100%" '
            f'style="background:#fff" font-family="sans-serif" font-size="12">{"".join(labels)}{"".join(boxes)}'
            f'<text x="{LABEL}" y="{height - 6}">{legend()}; {end / 1e9:.4g} s{hidden}</text></svg>')


def legend():
    shown = {"forward": "forward", "backward": "backward", "weight_gradient": "weight gradients",
             "reduce": "reduction", "optimizer": "optimizer"}
    return " ".join(f'<tspan fill="{COLOURS[kind]}">■</tspan> {text}' for kind, text in shown.items())
