// Where a run's cost model comes from, as its configuration says.
#pragma once

#include <optional>
#include <string_view>

#include "slimpack/cost/cost_model.h"
#include "slimpack/spec/decoder_shape.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// From cost.file, else from [hardware], else nullopt: then somebody has to measure; without
/// host_per_byte where train.device is the CPU, whose memory is the host's. Throws InvalidInput for
/// a cost file of another model or number format.
[[nodiscard]] std::optional<Costs> configured_cost(const RunConfig& config,
                                                   const DecoderShape& shape);

/// The same, for commands that do not measure: throws InvalidInput naming `origin`, the run
/// configuration, when it says nothing of costs.
[[nodiscard]] Costs required_cost(const RunConfig& config, const DecoderShape& shape,
                                  std::string_view origin);

/// Costs that were written down, on the device of this run: as configured_cost has them.
[[nodiscard]] Costs on_device(Costs cost, DeviceKind device);

}  // namespace slimpack
