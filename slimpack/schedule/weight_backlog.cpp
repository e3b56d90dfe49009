#include "slimpack/schedule/weight_backlog.h"

#include <algorithm>

namespace slimpack {

WeightBacklog::WeightBacklog(const MemoryGuard& guard, const TaskBytes& bytes, StageId stage)
    : guard_(&guard), bytes_(&bytes), stage_(stage.index()) {
  if (bytes.weight_operands.empty()) return;
  for (const Bytes transient : bytes.weight_transient[stage_])
    transient_ = std::max(transient_, transient);
}

bool WeightBacklog::knows(std::int32_t b) const {
  return !bytes_->weight_operands.empty() &&
         static_cast<std::size_t>(b) < bytes_->weight_operands[stage_].size();
}

Bytes WeightBacklog::operands_of(std::int32_t b) const {
  return knows(b) ? bytes_->weight_operands[stage_][static_cast<std::size_t>(b)] : Bytes(0);
}

Bytes WeightBacklog::peak_of_forward(std::int32_t f, std::int32_t b) const {
  const Bytes then = empty() ? Bytes(0) : transient_;
  return operands_ + std::max(guard_->level_of_forward(f, b), guard_->level(f + 1, b) + then);
}

Bytes WeightBacklog::peak_of_backward(std::int32_t f, std::int32_t b, bool split) const {
  Bytes during = guard_->level_of_backward(f, b);
  if (split && knows(b)) {
    const auto at = static_cast<std::size_t>(b);
    during += bytes_->input_transient[stage_][at] - bytes_->backward_transient[stage_][at];
  }
  const Bytes kept = split ? operands_of(b) : Bytes(0);
  const Bytes then = split || !empty() ? transient_ : Bytes(0);
  return operands_ + std::max(during, guard_->level(f, b + 1) + kept + then);
}

Bytes StageMemory::highest_of(std::span<const Action> order) const {
  WeightBacklog waiting = backlog;
  Bytes peak = guard->before_start();
  MemoryGuard::Walk walk(*guard);
  std::int32_t forwards = 0;
  std::int32_t backwards = 0;
  for (const Action& action : order) {
    const bool split = action.pass == Pass::kInputGradient;
    if (action.pass == Pass::kWeightGradient) {
      waiting.run(action.pack.value());
    } else if (action.pass == Pass::kForward) {
      peak = std::max(peak, walk.peak_after_forward(forwards, backwards));
      if (!waiting.empty()) peak = std::max(peak, waiting.peak_of_forward(forwards, backwards));
      ++forwards;
    } else {
      if (split || !waiting.empty())
        peak = std::max(peak, waiting.peak_of_backward(forwards, backwards, split));
      if (split) waiting.put_off(backwards);
      ++backwards;
    }
  }
  return peak;
}

}  // namespace slimpack
