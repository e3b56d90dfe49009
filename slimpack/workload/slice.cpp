#include "slimpack/workload/slice.h"

#include <numeric>

namespace slimpack {

Tokens total_tokens(const SequenceLengths& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), Tokens(0));
}

}  // namespace slimpack
