#include "slimpack/base/error.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

Schedule split_backwards(const Schedule& schedule) {
  Schedule split;
  for (std::size_t s = 0; s < schedule.ranks.size(); ++s) {
    auto& actions = split.ranks.emplace_back();
    std::size_t sent = 0;      // input gradients
    std::size_t computed = 0;  // weight gradients
    const auto weights_of_next = [&] {
      actions.push_back({StageId(s), Pass::kWeightGradient, PackId(computed++)});
    };
    for (const Action& action : schedule.ranks[s]) {
      SLIMPACK_CHECK(action.pass == Pass::kForward || action.pass == Pass::kBackward);
      if (action.pass == Pass::kForward) {
        actions.push_back(action);
        continue;
      }
      actions.push_back({action.stage, Pass::kInputGradient, action.pack});
      if (++sent > s) weights_of_next();
    }
    while (computed < sent) weights_of_next();
  }
  return split;
}

}  // namespace slimpack
