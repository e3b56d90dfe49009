"""Measurements that take turns: what slows a machine for a moment hits all of them alike."""

import statistics
import time

from slimpack.torch.profiling.lone_layer import Point

_MOST_OF_A_POINT = 0.2  # of the seconds that all points have
_LEAST_POINTS = 5  # for as many terms
_FEWEST = 32  # tokens of a slice that is counted
_CHUNK = 64  # tokens, of scans of recurrent layers


def points_up_to(context, *, scans=False):
    """Short and long slices, with and without prefixes, alone and several in a MicroPack.

    scans: whether a scan pads slices to its chunks. Then the last chunk of each slice is half empty, as
    it is on average of documents."""
    c = context
    points = [Point(32, 0, 1), Point(128, 0, 1), Point(512, 0, 1), Point(2048, 0, 1),
              Point(64, 0, 8), Point(256, 0, 4), Point(128, c // 2, 1), Point(512, c // 4, 1),
              Point(512, c // 2, 1), Point(256, c - 256, 1), Point(1024, c - 1024, 1),
              Point(32, c // 4, 4), Point(c // 4, 0, 1), Point(c // 4, c // 2, 1),
              Point(c // 2, 0, 1)]
    points = {p for p in points if p.prefix >= 0 and p.tokens + p.prefix <= c}
    if scans:
        points = {p._replace(tokens=p.tokens - _CHUNK // 2) if p.tokens % _CHUNK == 0 else p
                  for p in points}
    return sorted(points) or [Point(c, 0, 1)]


def long_points(context):
    """For bytes, where those of MicroPacks of few tokens do not matter."""
    c = context
    return [Point(c // 8, 0, 1), Point(c // 2, 0, 1), Point(c, 0, 1), Point(c // 16, 0, 4),
            Point(c // 8, c // 4, 1), Point(c // 8, c // 2, 1), Point(c // 4, 3 * c // 4, 1),
            Point(c // 2, c // 2, 1), Point(c // 16, 15 * c // 16, 1), Point(max(1, c // 64), c // 4, 4)]


def far_points(context):
    """For bytes of MicroPacks as a sequence of `context` tokens is cut into, up to its end."""
    c = context
    sizes = sorted({min(c, max(_FEWEST, c // part)) for part in (512, 128, 32, 8, 2)})
    points = {Point(t, p, 1) for t in sizes for p in (0, c // 16, c // 4, c // 2, c - t) if t + p <= c}
    return sorted(points | {Point(max(1, t // 8), 0, 8) for t in sizes})


def in_turns(points, run, seconds, progress):
    """By point the median of its runs, figure by figure. Points that would take too long are left
    out, but for the five cheapest. run: a point to a tuple of nanoseconds."""
    deadline = time.perf_counter() + seconds
    left = sorted(points, key=_work)
    run(left[0])  # warms up
    runs, rate = {}, 0.0
    for point in left:
        if len(runs) >= _LEAST_POINTS and rate * _work(point) > _MOST_OF_A_POINT * seconds:
            break
        begin = time.perf_counter()
        runs[point] = [run(point)]
        rate = (time.perf_counter() - begin) / _work(point)
        progress()
    while time.perf_counter() < deadline:
        for point, of_point in runs.items():
            of_point.append(run(point))
            progress()
            if time.perf_counter() > deadline:
                break
    return {point: type(of_point[0])(*map(statistics.median, zip(*of_point, strict=True)))
            for point, of_point in runs.items()}


def _work(point):
    """About what a point takes, with its prefix, in tokens of linear work."""
    end = point.prefix + point.tokens
    return point.slices * (end + end * end / 4096)
