#include "slimpack/cost/whole_sequences.h"

namespace slimpack {
namespace {

Slice whole(Tokens length) {
  return {SequenceId(), Tokens(0), length};
}

}  // namespace

WholeSequences::WholeSequences(const SequenceLengths& lengths) : lengths_(lengths) {
  for (const Tokens length : lengths) {
    tokens_ += static_cast<double>(length.count());
    pairs_ += whole(length).causal_pairs();
  }
}

double WholeSequences::time(const PackCost& cost) const {
  double window_pairs = 0;
  if (cost.windowed())
    for (const Tokens length : lengths_) window_pairs += whole(length).window_pairs(cost.window);
  return cost.per_slice * static_cast<double>(lengths_.size()) + cost.per_token * tokens_ +
         cost.per_pair * pairs_ + cost.per_window_pair * window_pairs;
}

}  // namespace slimpack
