#include "slimpack/sim/receive_posts.h"

namespace slimpack {

ReceivePosts::ReceivePosts(std::span<const LoweredSchedule> lowered, std::size_t stages)
    : stages_(stages) {
  for (const LoweredSchedule& replica : lowered)
    for (const std::vector<Instruction>& instructions : replica.stages) {
      OfRank& rank = ranks_.emplace_back();
      const Instruction* before = nullptr;
      for (const Instruction& i : instructions) {
        // Receives of one direction are posted in the order of their packs.
        if (i.operation == Operation::kReceive)
          rank[i.action.pass == Pass::kForward ? 0 : 1].push_back(before);
        else
          before = &i;
      }
    }
}

const Instruction* ReceivePosts::before(std::size_t replica, std::size_t stage,
                                        const Action& action) const {
  if (ranks_.empty()) return nullptr;
  const OfRank& rank = ranks_[replica * stages_ + stage];
  return rank[action.pass == Pass::kForward ? 0 : 1][action.pack.index()];
}

}  // namespace slimpack
