// Rank result: what one rank has measured and found in a step, and what all ranks have.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {

/// The outcome of a step's update.
enum class UpdateOutcome : std::uint8_t {
  kNone,       ///< none was asked for
  kMade,       ///< parameters are updated, and finite
  kRefused,    ///< the gradient norm is not finite or too large: parameters are untouched
  kNotFinite,  ///< some updated parameters are not finite numbers
};

struct RankResult {
  double loss_sum = 0;  ///< over all ranks
  double gradient_norm = 0;
  UpdateOutcome update = UpdateOutcome::kNone;  ///< of this rank's parameters
  std::vector<Span> spans;
  std::vector<MemorySample> memory;
  Bytes peak_activation;
};

/// Measurements and outcomes of all members of a group.
struct AllRanks {
  /// The spans, samples and peaks of all members by index, at the first of them; elsewhere none.
  Timeline timeline;
  UpdateOutcome update = UpdateOutcome::kNone;  ///< kNotFinite if it is that of any member
};
[[nodiscard]] AllRanks gathered(const RankResult& own, Collective& group);

}  // namespace slimpack
