// The sequences of one step, for commands that plan without training.
#pragma once

#include <string>

#include "slimpack/base/units.h"
#include "slimpack/workload/slice.h"

namespace slimpack {

struct StepLengths {
  SequenceLengths lengths;
  std::string source;  ///< where they come from, for people
};

/// A length list is one step as it stands, cut at the context as in training. Throws InvalidInput
/// as read_lengths.
[[nodiscard]] StepLengths listed_lengths(const std::string& file, Tokens context);

}  // namespace slimpack
