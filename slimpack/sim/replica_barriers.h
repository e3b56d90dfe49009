// Replica barriers: the replicas of a merged MicroPack wait for each other.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/plan/plan.h"

namespace slimpack {

/// Every action of a merged pack on a stage is a barrier of the pack's replicas. It starts when the
/// last replica is ready and takes as long as on the slowest.
class ReplicaBarriers {
 public:
  /// REQUIRES: check_plan accepts the plans of these replicas together.
  ReplicaBarriers(const std::vector<const PackPlan*>& replicas, std::size_t stages);

  /// Whether this pack is merged.
  [[nodiscard]] bool has(std::size_t replica, Pass pass, std::size_t pack) const {
    return any_ && ids_of(replica, pass)[pack] != kNone;
  }

  /// The replica is ready at `ready` and would take `duration` alone. REQUIRES: has() is true;
  /// called once for each pack, replica and stage.
  void arrive(std::size_t replica, Pass pass, std::size_t pack, std::size_t stage,
              std::int64_t ready, std::int64_t duration);

  struct Times {
    bool known = false;  ///< all replicas have arrived
    std::int64_t start = 0;
    std::int64_t duration = 0;
  };
  [[nodiscard]] Times times(std::size_t replica, Pass pass, std::size_t pack,
                            std::size_t stage) const;

 private:
  struct Barrier {
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
  std::vector<std::vector<std::int32_t>> forward_ids_;   ///< [replica][pack]: merged pack or kNone
  std::vector<std::vector<std::int32_t>> backward_ids_;  ///< likewise
  std::vector<Barrier> barriers_;                        ///< [merged pack · stages + stage]
};

}  // namespace slimpack
