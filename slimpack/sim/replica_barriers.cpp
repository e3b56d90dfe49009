// The k-th pack that exactly the replicas of a group share is the same pack on all of them
// (check_plan). So the first replica of the group numbers these packs, and the others count along.
#include "slimpack/sim/replica_barriers.h"

#include <algorithm>
#include <map>

namespace slimpack {

ReplicaBarriers::ReplicaBarriers(const std::vector<const PackPlan*>& replicas, std::size_t stages)
    : stages_(stages) {
  const auto merged = [](const MicroPack& pack) { return pack.replicas > 1; };
  any_ = std::any_of(replicas.begin(), replicas.end(), [&](const PackPlan* packs) {
    return std::any_of(packs->forward.begin(), packs->forward.end(), merged);
  });
  if (!any_) return;
  for (const Pass pass : kWholePasses) number_packs(replicas, pass);
}

void ReplicaBarriers::number_packs(const std::vector<const PackPlan*>& replicas, Pass pass) {
  std::map<std::pair<std::size_t, std::size_t>, std::vector<std::int32_t>> ids_of_group;
  auto& ids = pass == Pass::kForward ? forward_ids_ : backward_ids_;
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    std::map<std::size_t, std::size_t> seen;  // by group size
    auto& own = ids.emplace_back();
    for (const MicroPack& pack : replicas[r]->of(pass)) {
      own.push_back(kNone);
      if (pack.replicas == 1) continue;
      const auto size = static_cast<std::size_t>(pack.replicas);
      auto& group = ids_of_group[{r - r % size, size}];
      const std::size_t k = seen[size]++;
      if (k == group.size()) {
        group.push_back(static_cast<std::int32_t>(barriers_.size() / stages_));
        barriers_.resize(barriers_.size() + stages_, {pack.replicas, 0, 0});
      }
      own.back() = group[k];
    }
  }
}

void ReplicaBarriers::arrive(std::size_t replica, Pass pass, std::size_t pack, std::size_t stage,
                             std::int64_t ready, std::int64_t duration) {
  Barrier& barrier = barriers_[place(replica, pass, pack, stage)];
  --barrier.missing;
  barrier.start = std::max(barrier.start, ready);
  barrier.duration = std::max(barrier.duration, duration);
}

ReplicaBarriers::Times ReplicaBarriers::times(std::size_t replica, Pass pass, std::size_t pack,
                                              std::size_t stage) const {
  const Barrier& barrier = barriers_[place(replica, pass, pack, stage)];
  return {barrier.missing == 0, barrier.start, barrier.duration};
}

}  // namespace slimpack
