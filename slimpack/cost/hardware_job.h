// Hardware job: what every term of a cost model from hardware figures depends on. Only the room
// cost looks inside.
#pragma once

#include <cstdint>

#include "slimpack/cost/cost_model.h"
#include "slimpack/spec/hardware.h"

namespace slimpack {

inline constexpr double kNanosPerSecond = 1e9;
inline constexpr double kNanosPerMicro = 1e3;

struct HardwareJob {
  const Decoder& shape;
  LayerShape layer;  ///< of the kind whose times are asked for
  Dtype dtype;
  const HardwareSpec& hardware;
  NodePlacement placement;
  double tp = placement.tensor;

  [[nodiscard]] double element() const { return static_cast<double>(element_bytes(dtype)); }
  [[nodiscard]] double accumulator() const { return static_cast<double>(accumulator_bytes(dtype)); }
  [[nodiscard]] double hidden() const { return static_cast<double>(shape.hidden_size()); }
  [[nodiscard]] double nanos_per_memory_byte() const {
    return kNanosPerSecond / hardware.memory_bandwidth;
  }
  /// Products read their weights once for all rows of a MicroPack, however few there are. That adds
  /// as much time as linear_half_rows rows take: half of the full rate at so many rows, all of it
  /// at many. `weights`: elements, of all tensor-parallel ranks.
  [[nodiscard]] double reading(double weights) const {
    return hardware.linear_half_rows * 2 * weights / hardware.linear_flops * kNanosPerSecond / tp;
  }
  /// Nanoseconds that products take to read and write the sums of the weights' gradients.
  /// `weights`: elements, of all tensor-parallel ranks.
  [[nodiscard]] double adding(double weights) const {
    return reading(weights) * 2 * accumulator() / element();
  }
  /// Elements of the weights that a layer's products read. The weights of all its experts are read.
  [[nodiscard]] double layer_weights() const { return static_cast<double>(layer.parameters()); }
};

enum class HeadWeights : std::uint8_t { kTrained, kFrozen };

/// The last stage's head, forward and backward, without collectives. It runs in blocks of rows that
/// have the size of those without fused kernels.
[[nodiscard]] EdgeTime head_time(const HardwareJob& job, HeadWeights weights);

/// Costs of the same layers under autograd (autograd_costs.h), of a shape that is counted.
[[nodiscard]] Costs under_autograd(Costs cost);

}  // namespace slimpack
