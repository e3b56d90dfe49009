// Waiting bytes: what lay in a rank's inboxes, by the rank's clock.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/packflow/ranks/communicator.h"

namespace slimpack {

/// Each input waits from the time it was put until the time it was taken.
class WaitingBytes {
 public:
  /// Cost: O(inputs · log(inputs)).
  explicit WaitingBytes(std::span<const WaitedInput> inputs);

  /// From `time` on. Cost: O(log(inputs)).
  [[nodiscard]] Bytes at(Nanos time) const;
  /// The most at any time of [begin, end). Cost: O(log(inputs) + changes between the two).
  [[nodiscard]] Bytes most(Nanos begin, Nanos end) const;

 private:
  using Level = std::pair<Nanos, Bytes>;  ///< so many bytes from then on
  [[nodiscard]] std::vector<Level>::const_iterator after(Nanos time) const;

  std::vector<Level> levels_;  ///< ascending by time
};

}  // namespace slimpack
