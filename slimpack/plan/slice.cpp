#include "slimpack/plan/slice.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace slimpack {

Tokens total_tokens(const SequenceLengths& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), Tokens(0));
}

std::vector<SequenceId> all_sequences(const SequenceLengths& lengths) {
  std::vector<SequenceId> ids;
  for (std::size_t i = 0; i < lengths.size(); ++i) ids.emplace_back(i);
  return ids;
}

void sort_longest_first(const SequenceLengths& lengths, std::vector<SequenceId>& sequences) {
  const auto longer = [&](SequenceId a, SequenceId b) {
    return std::pair(lengths[b.index()], a) < std::pair(lengths[a.index()], b);
  };
  if (!std::ranges::is_sorted(sequences, longer)) std::ranges::sort(sequences, longer);
}

}  // namespace slimpack
