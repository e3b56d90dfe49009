// Numbers of the parameters that a job trains, and of those that it holds beside them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "slimpack/cost/cost_model.h"

namespace slimpack {

/// By kind, the layers of a stage.
[[nodiscard]] std::vector<std::int64_t> kinds_of_stage(const Decoder& shape,
                                                       const StageLayout& layout, StageId stage);

/// Parameters of a layer of one kind.
[[nodiscard]] ParameterCount layer_parameters(const Costs& cost, std::size_t kind);

/// Parameters that all tensor-parallel ranks of a stage hold together.
[[nodiscard]] ParameterCount stage_parameters(const Costs& cost, const StageLayout& layout,
                                              StageId stage);

/// Parameters of the whole model, with adapters.
[[nodiscard]] ParameterCount model_parameters(const Costs& cost);

/// "8.0 B parameters, 41.9 M of them trained"; without the second half where all are.
[[nodiscard]] std::string describe(const ParameterCount& count);

/// Bytes of the weights of frozen and of trained parameters, each.
struct WeightBytes {
  double frozen = 0;
  double trained = 0;

  [[nodiscard]] double of(const ParameterCount& count) const {
    return frozen * static_cast<double>(count.frozen) +
           trained * static_cast<double>(count.trained);
  }
};
[[nodiscard]] WeightBytes weight_bytes(const Costs& cost);

}  // namespace slimpack
