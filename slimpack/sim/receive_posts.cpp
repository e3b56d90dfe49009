#include "slimpack/sim/receive_posts.h"

namespace slimpack {

ReceivePosts::ReceivePosts(std::span<const LoweredSchedule> lowered, std::size_t stages)
    : count_(stages), stages_(lowered.size() * stages) {
  for (std::size_t r = 0; r < lowered.size(); ++r)
    for (const std::vector<Instruction>& instructions : lowered[r].ranks) {
      const Instruction* before = nullptr;
      for (const Instruction& i : instructions) {
        // A stage's receives of one direction are posted in the order of their packs.
        if (i.operation == Operation::kReceive)
          stages_[r * count_ + i.action.stage.index()][i.action.pass == Pass::kForward ? 0 : 1]
              .push_back(before);
        else
          before = &i;
      }
    }
}

const Instruction* ReceivePosts::before(std::size_t replica, const Action& action) const {
  if (stages_.empty()) return nullptr;
  const OfStage& stage = stages_[replica * count_ + action.stage.index()];
  return stage[action.pass == Pass::kForward ? 0 : 1][action.pack.index()];
}

}  // namespace slimpack
