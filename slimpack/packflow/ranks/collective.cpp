#include "slimpack/packflow/ranks/collective.h"

namespace slimpack {

void add_up_members(const std::vector<at::Tensor>& parts_S, std::int32_t index) {
  const auto own_index = static_cast<std::size_t>(index);
  const at::Tensor& sum_S = parts_S[own_index];
  // parts_S[index] takes the sum. A copy of its own addend is added in its turn.
  at::Tensor own_S = sum_S;
  if (own_index != 0) {
    own_S = sum_S.clone();
    sum_S.copy_(parts_S[0]);
  }
  for (std::size_t m = 1; m < parts_S.size(); ++m) sum_S.add_(m == own_index ? own_S : parts_S[m]);
}

}  // namespace slimpack
