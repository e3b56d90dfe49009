// Head blocks: the rows of logits that a rank holds at once.
#pragma once

#include <cstdint>

#include "slimpack/base/units.h"
#include "slimpack/spec/device_kind.h"

namespace slimpack {

/// Rows of logits that the head computes at once. On a CPU a block is small enough for its caches.
/// On a GPU it is as large as a product must be to run at full speed.
[[nodiscard]] Tokens head_block(std::int64_t vocab_size, DeviceKind device);
/// head_block() where fused kernels take the logits (layer_widths.h): in a quarter of the memory,
/// so that blocks have four times the rows.
[[nodiscard]] Tokens fused_head_block(std::int64_t vocab_size);

}  // namespace slimpack
