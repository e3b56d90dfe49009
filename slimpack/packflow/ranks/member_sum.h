// The sum of what the members of a group have, in an order that does not depend on who is first.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace slimpack {

/// Replaces parts_S[index] by the sum of all parts, which are tensors of one size by member. They
/// are added in member order, so the bits are the same on all members and in every run.
void add_up_members(const std::vector<at::Tensor>& parts_S, std::int32_t index);

}  // namespace slimpack
