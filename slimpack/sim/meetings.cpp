// Steps: the k-th pack that exactly the replicas of a group share is the same pack on all of them
// (check_plan), so the first replica of the group numbers them and the others count along.
#include "slimpack/sim/meetings.h"

#include <algorithm>
#include <map>

namespace slimpack {

Meetings::Meetings(const std::vector<const PackPlan*>& replicas, std::size_t stages)
    : stages_(stages) {
  const auto merged = [](const MicroPack& pack) { return pack.replicas > 1; };
  any_ = std::any_of(replicas.begin(), replicas.end(), [&](const PackPlan* packs) {
    return std::any_of(packs->forward.begin(), packs->forward.end(), merged);
  });
  if (!any_) return;
  for (const Pass pass : kWholePasses) number_packs(replicas, pass);
}

void Meetings::number_packs(const std::vector<const PackPlan*>& replicas, Pass pass) {
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
        group.push_back(static_cast<std::int32_t>(meetings_.size() / stages_));
        meetings_.resize(meetings_.size() + stages_, {pack.replicas, 0, 0});
      }
      own.back() = group[k];
    }
  }
}

void Meetings::join(std::size_t replica, Pass pass, std::size_t pack, std::size_t stage,
                    std::int64_t ready, std::int64_t duration) {
  Meeting& meeting = meetings_[place(replica, pass, pack, stage)];
  --meeting.missing;
  meeting.start = std::max(meeting.start, ready);
  meeting.duration = std::max(meeting.duration, duration);
}

Meetings::Times Meetings::times(std::size_t replica, Pass pass, std::size_t pack,
                                std::size_t stage) const {
  const Meeting& meeting = meetings_[place(replica, pass, pack, stage)];
  return {meeting.missing == 0, meeting.start, meeting.duration};
}

}  // namespace slimpack
