#include "slimpack/schedule/weight_backlog.h"

#include <algorithm>

namespace slimpack {

WeightBacklog::WeightBacklog(const MemoryGuard& guard, const TaskBytes& bytes, StageId stage)
    : guard_(&guard),
      operands_of_(bytes.weight_operands.empty() ? nullptr
                                                 : &bytes.weight_operands[stage.index()]) {
  if (operands_of_ == nullptr) return;
  for (const Bytes transient : bytes.weight_transient[stage.index()])
    transient_ = std::max(transient_, transient);
}

Bytes WeightBacklog::operands_of(std::int32_t b) const {
  const auto at = static_cast<std::size_t>(b);
  return operands_of_ == nullptr || at >= operands_of_->size() ? Bytes(0) : (*operands_of_)[at];
}

Bytes WeightBacklog::peak_of_forward(std::int32_t f, std::int32_t b) const {
  return std::max(guard_->level_of_forward(f, b), guard_->level(f + 1, b)) + operands_ +
         (empty() ? Bytes(0) : transient_);
}

Bytes WeightBacklog::peak_of_backward(std::int32_t f, std::int32_t b, bool split) const {
  return std::max(guard_->level_of_backward(f, b), guard_->level(f, b + 1)) + operands_ +
         (split ? operands_of(b) : Bytes(0)) + (split || !empty() ? transient_ : Bytes(0));
}

}  // namespace slimpack
