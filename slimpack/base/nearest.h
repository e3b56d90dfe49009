// Suggestions for misspelled names.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace slimpack {

/// The smallest number of single-character insertions, deletions and replacements that turn `a`
/// into `b`. Cost: O(|a| · |b|).
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// The known word with the fewest edits to `word`, the first of equals. Empty when every known word
/// takes more edits than a third of its length (at least 2 edits are allowed). Points into `known`.
[[nodiscard]] std::string_view nearest(std::string_view word,
                                       std::span<const std::string_view> known);

/// The remedy of an error about an unknown word: `did you mean "steps"?`, or `known are a, b, c`.
[[nodiscard]] std::string suggestion(std::string_view word,
                                     std::span<const std::string_view> known);

}  // namespace slimpack
