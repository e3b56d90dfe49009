// Lower hull: the choices between which nothing saves both memory and time.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

namespace slimpack {

/// The lower convex hull of points with `bytes` and `time`, fewest bytes first: every other point
/// is matched in both by a mixture of two neighbours. The first of equal points stays.
/// Cost: O(points · log points).
template <class Point>
[[nodiscard]] std::vector<Point> lower_hull(std::vector<Point> points) {
  std::ranges::stable_sort(points, {}, [](const Point& p) { return std::pair(p.bytes, p.time); });
  std::vector<Point> hull;
  for (const Point& c : points) {
    if (!hull.empty() && hull.back().time <= c.time) continue;
    const auto above = [&](const Point& a, const Point& b) {
      return (b.time - a.time) * (c.bytes - a.bytes) >= (c.time - a.time) * (b.bytes - a.bytes);
    };
    while (hull.size() > 1 && above(hull[hull.size() - 2], hull.back())) hull.pop_back();
    hull.push_back(c);
  }
  return hull;
}

}  // namespace slimpack
