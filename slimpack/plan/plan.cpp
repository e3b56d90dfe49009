#include "slimpack/plan/plan.h"

#include <algorithm>

#include "slimpack/base/error.h"

namespace slimpack {

Tokens MicroPack::tokens() const {
  Tokens sum;
  for (const Slice& slice : slices) sum += slice.length();
  return sum;
}

Tokens MicroPack::rows() const {
  std::vector<Tokens> rows(static_cast<std::size_t>(replicas));
  for (std::size_t s = 0; s < slices.size(); ++s) {
    const Zone members = row_zone(s);
    const Tokens share((slices[s].length().count() + members.size - 1) / members.size);
    for (std::int32_t m = members.first; m < members.end(); ++m)
      rows[static_cast<std::size_t>(m)] += share;
  }
  return *std::ranges::max_element(rows);
}

std::int32_t most_merged(const PackPlan& packs) {
  std::int32_t most = 1;
  for (const MicroPack& pack : packs.forward) most = std::max(most, pack.replicas);
  return most;
}

std::int32_t most_merged(const StepPlan& plan) {
  std::int32_t most = 1;
  for (const ReplicaPlan& replica : plan.replicas)
    most = std::max(most, most_merged(replica.packs));
  return most;
}

RecomputeByLayer recompute_of_stage(const StepPlan& plan, StageId stage) {
  RecomputeByLayer recompute;
  for (std::int32_t l = plan.layout.layer_begin[stage.index()];
       l < plan.layout.layer_begin[stage.index() + 1]; ++l)
    recompute.push_back(recompute_of(plan.recompute, static_cast<std::size_t>(l)));
  return recompute;
}

void require_valid_plan(const StepPlan& plan, std::string_view origin) {
  const std::vector<std::string> errors = check_plan(plan, 1);
  if (!errors.empty())
    invalid_input("{}: not a correct plan: {}; plan again", origin, errors.front());
}

std::vector<std::int32_t> forwards_needed(const PackPlan& packs) {
  std::int32_t highest = -1;
  for (const MicroPack& pack : packs.forward)
    for (const Slice& slice : pack.slices) highest = std::max(highest, slice.sequence.value());

  std::vector<std::int32_t> last_forward(static_cast<std::size_t>(highest + 1), -1);
  for (std::size_t f = 0; f < packs.forward.size(); ++f)
    for (const Slice& slice : packs.forward[f].slices)
      last_forward[slice.sequence.index()] = static_cast<std::int32_t>(f);

  std::vector<std::int32_t> needed(packs.backward.size(), 0);
  for (std::size_t b = 0; b < packs.backward.size(); ++b)
    for (const Slice& slice : packs.backward[b].slices) {
      SLIMPACK_CHECK(slice.sequence.value() >= 0 && slice.sequence.value() <= highest,
                     "sequence {} runs backward but never forward", slice.sequence.value());
      needed[b] = std::max(needed[b], last_forward[slice.sequence.index()] + 1);
    }
  return needed;
}

}  // namespace slimpack
