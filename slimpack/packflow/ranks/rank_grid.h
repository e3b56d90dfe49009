// Rank grid: the place of each rank in a job.
#pragma once

#include <cstdint>

#include "slimpack/base/units.h"

namespace slimpack {

struct RankPlace {
  ReplicaId replica;
  StageId stage;
  std::int32_t tensor = 0;  ///< of the stage's tensor-parallel ranks

  bool operator==(const RankPlace&) const = default;
};

/// Tensor-parallel rank t of a stage is rank (replica · stages + stage) · tensor + t. With tensor =
/// 1 the simulator numbers ranks in the same way.
struct RankGrid {
  std::int32_t stages = 1;
  std::int32_t replicas = 1;
  std::int32_t tensor = 1;

  [[nodiscard]] std::int32_t ranks() const { return stages * replicas * tensor; }
  [[nodiscard]] RankPlace place(std::int32_t rank) const {
    return {ReplicaId(rank / (stages * tensor)), StageId(rank / tensor % stages), rank % tensor};
  }
  [[nodiscard]] std::int32_t rank(const RankPlace& place) const {
    return (place.replica.value() * stages + place.stage.value()) * tensor + place.tensor;
  }
  bool operator==(const RankGrid&) const = default;
};

}  // namespace slimpack
