#include "slimpack/plan/slice.h"

#include <numeric>

namespace slimpack {

Tokens total_tokens(const SequenceLengths& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), Tokens(0));
}

std::vector<SequenceId> all_sequences(const SequenceLengths& lengths) {
  std::vector<SequenceId> ids;
  for (std::size_t i = 0; i < lengths.size(); ++i) ids.emplace_back(i);
  return ids;
}

}  // namespace slimpack
