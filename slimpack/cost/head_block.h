// Head blocks: the rows of logits that a rank holds at once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "slimpack/base/units.h"
#include "slimpack/spec/hardware.h"

namespace slimpack {

/// Rows of logits that the head computes at once. On a CPU a block is small enough for its caches.
/// On a GPU it is as large as a product must be to run at full speed.
[[nodiscard]] constexpr Tokens head_block(std::int64_t vocab_size, DeviceKind device) {
  const bool gpu = device == DeviceKind::kCuda;
  const std::int64_t logits = std::int64_t{1} << (gpu ? 28 : 20);  // in fp32: 1 GiB, 4 MiB
  return Tokens(std::clamp<std::int64_t>(logits / vocab_size, gpu ? 2048 : 64, 4096));
}
/// head_block() where fused kernels take the logits (layer_widths.h): in a quarter of the memory,
/// so that blocks have four times the rows.
[[nodiscard]] constexpr Tokens fused_head_block(std::int64_t vocab_size) {
  return head_block(vocab_size, DeviceKind::kCuda) * 4;
}

}  // namespace slimpack
