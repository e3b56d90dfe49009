// Pass ratios: how backward compares with forward on this machine.
#pragma once

#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/packflow/profile/profile.h"

namespace slimpack {

/// Times of one layer, of the first kind, on one whole sequence, split into attention and
/// everything else. The latter is a difference: where attention takes nearly all, noise of a busy
/// machine can hide it, and it is 1 ns then.
struct PassRatio {
  Tokens tokens;
  Nanos attention_forward, attention_backward;
  Nanos linear_forward, linear_backward;
};

/// At powers of four from 256 to the context: how backward compares with forward. Ends before a
/// length at which one layer's two passes would take more than options.most_of_a_point().
[[nodiscard]] std::vector<PassRatio> measure_pass_ratios(const ProfileOptions& options);

}  // namespace slimpack
