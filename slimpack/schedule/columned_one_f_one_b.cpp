#include "slimpack/base/error.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

Schedule columned_one_f_one_b(const std::vector<std::int32_t>& columns, int stages) {
  std::vector<std::int32_t> pack_of(
      columns.empty() ? 0 : static_cast<std::size_t>(columns.back()) + 1, -1);
  for (std::size_t p = 0; p < columns.size(); ++p) {
    SLIMPACK_CHECK(p == 0 ? columns[p] >= 0 : columns[p] > columns[p - 1]);
    pack_of[static_cast<std::size_t>(columns[p])] = static_cast<std::int32_t>(p);
  }
  const PackPlan all{std::vector<MicroPack>(pack_of.size()),
                     std::vector<MicroPack>(pack_of.size())};
  Schedule schedule;
  for (const auto& actions : one_f_one_b(all, stages).ranks) {
    auto& own = schedule.ranks.emplace_back();
    for (const Action& action : actions)
      if (const std::int32_t pack = pack_of[action.pack.index()]; pack >= 0)
        own.push_back({action.stage, action.pass, PackId(pack)});
  }
  return schedule;
}

}  // namespace slimpack
