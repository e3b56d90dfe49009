// Meetings: where the replicas of merged MicroPacks wait for each other.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// Every action of a merged pack on a stage is a meeting of the pack's replicas: it starts when the
/// last of them is ready and takes as long as the slowest needs.
class Meetings {
 public:
  /// REQUIRES: check_plan accepts the plans of these replicas together.
  Meetings(const std::vector<const PackPlan*>& replicas, std::size_t stages);

  /// Whether a pack of a replica is merged. False at once when no pack of the step is.
  [[nodiscard]] bool has(std::size_t replica, Pass pass, std::size_t pack) const {
    return any_ && ids_of(replica, pass)[pack] != kNone;
  }

  /// One replica is ready at `ready` and needs `duration` of its own. REQUIRES: has(); once for
  /// each replica and stage.
  void join(std::size_t replica, Pass pass, std::size_t pack, std::size_t stage, std::int64_t ready,
            std::int64_t duration);

  struct Times {
    bool known = false;  ///< all replicas have joined
    std::int64_t start = 0;
    std::int64_t duration = 0;
  };
  [[nodiscard]] Times times(std::size_t replica, Pass pass, std::size_t pack,
                            std::size_t stage) const;

 private:
  struct Meeting {
    std::int32_t missing = 0;
    std::int64_t start = 0;
    std::int64_t duration = 0;
  };
  static constexpr std::int32_t kNone = -1;

  void number_packs(const std::vector<const PackPlan*>& replicas, Pass pass);
  [[nodiscard]] const std::vector<std::int32_t>& ids_of(std::size_t replica, Pass pass) const {
    return (pass == Pass::kForward ? forward_ids_ : backward_ids_)[replica];
  }
  [[nodiscard]] std::size_t place(std::size_t replica, Pass pass, std::size_t pack,
                                  std::size_t stage) const {
    return static_cast<std::size_t>(ids_of(replica, pass)[pack]) * stages_ + stage;
  }

  std::size_t stages_;
  bool any_ = false;
  std::vector<std::vector<std::int32_t>> forward_ids_;   ///< [replica][pack]: merged pack, kNone
  std::vector<std::vector<std::int32_t>> backward_ids_;  ///< likewise
  std::vector<Meeting> meetings_;                        ///< [merged pack · stages + stage]
};

}  // namespace slimpack
