#include "slimpack/cost/head_block.h"

#include <algorithm>

namespace slimpack {

Tokens head_block(std::int64_t vocab_size, DeviceKind device) {
  const bool gpu = device == DeviceKind::kCuda;
  const std::int64_t logits = std::int64_t{1} << (gpu ? 28 : 20);  // in fp32: 1 GiB, 4 MiB
  return Tokens(std::clamp<std::int64_t>(logits / vocab_size, gpu ? 2048 : 64, 4096));
}

Tokens fused_head_block(std::int64_t vocab_size) {
  return head_block(vocab_size, DeviceKind::kCuda) * 4;
}

}  // namespace slimpack
