// The trained parameters of a model that also has frozen ones, such as adapters (LoRA) of a frozen
// model. Frozen parameters have weights, but no gradient and no optimizer state.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/spec/decoder.h"

namespace slimpack {

/// The trained part of a layer of one kind.
struct TrainedLayer {
  std::int64_t parameters = 0;
  std::int64_t weights = 0;  ///< elements of the matrices that a token is multiplied with

  bool operator==(const TrainedLayer&) const = default;
};

struct TrainedPart {
  std::vector<TrainedLayer> kinds;  ///< by kind of layer, as Decoder::kinds
  CountedEdges edges = {};          ///< outside of the layers
  double weight_bytes = 0;          ///< of each: adapters may be wider than what they adapt

  bool operator==(const TrainedPart&) const = default;
};

/// Numbers of parameters.
struct ParameterCount {
  std::int64_t frozen = 0;
  std::int64_t trained = 0;

  [[nodiscard]] std::int64_t all() const { return frozen + trained; }
  bool operator==(const ParameterCount&) const = default;
};

}  // namespace slimpack
