#include "slimpack/base/nearest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace slimpack {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // row[j] = distance of the part of `a` read so far to the first j characters of b.
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> known) {
  std::string_view best;
  std::size_t least = word.size() + 1;
  for (const std::string_view candidate : known) {
    const std::size_t allowed = std::max<std::size_t>(2, candidate.size() / 3);
    // The difference of lengths rules most words out, so an absurdly long word costs nothing.
    if (word.size() > candidate.size() + allowed || candidate.size() > word.size() + allowed)
      continue;
    const std::size_t distance = edit_distance(word, candidate);
    // A word that replaces every character is not similar, however short it is.
    if (distance <= allowed && distance < candidate.size() && distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

std::string suggestion(std::string_view word, std::span<const std::string_view> known) {
  const std::string_view best = nearest(word, known);
  if (!best.empty()) return fmt::format("did you mean \"{}\"?", best);
  return fmt::format("known are {}", fmt::join(known, ", "));
}

}  // namespace slimpack
