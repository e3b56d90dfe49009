#include <algorithm>

#include "slimpack/baselines/makers.h"

namespace slimpack {
namespace {

/// Packs of so many eighths of the context.
constexpr std::int64_t kEighths[] = {6, 4, 3, 2};

}  // namespace

Tokens pack_tokens(const BaselineInput& input) {
  return input.tuning.pack > Tokens(0) ? input.tuning.pack : input.context;
}

std::vector<Tuning> pack_tunings(const BaselineInput& input) {
  std::vector<Tokens> sizes{Tokens(0)};
  if (!input.lengths.empty()) {
    const Tokens longest = *std::max_element(input.lengths.begin(), input.lengths.end());
    Tokens before = std::min(input.context, total_tokens(input.lengths));
    for (const std::int64_t eighths : kEighths) {
      const Tokens size = std::max(longest, input.context * eighths / 8);
      if (size < before) sizes.push_back(size);
      before = std::min(before, size);
    }
  }
  return varied({Tuning{}}, &Tuning::pack, sizes);
}

std::vector<Tuning> dealt_tunings(const BaselineInput& input, const std::vector<Tuning>& tunings) {
  if (input.lengths.size() <= 1) return tunings;
  const std::vector<PackOrder> orders{PackOrder::kPublished, PackOrder::kHeaviestFirst,
                                      PackOrder::kLightestFirst, PackOrder::kLightAtBothEnds};
  std::vector<Dealing> dealings{Dealing::kPublished};
  if (input.replicas() > 1) dealings.push_back(Dealing::kByTime);
  return varied(varied(tunings, &Tuning::dealing, dealings), &Tuning::order, orders);
}

}  // namespace slimpack
