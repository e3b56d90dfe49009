// Gets the cost model that a run's configuration names.
#pragma once

#include <optional>
#include <string_view>

#include "slimpack/cost/cost_model.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// The costs of cost.file, else of [hardware], as on_device leaves them. nullopt if the
/// configuration names neither: then the caller has to measure. Throws InvalidInput for a cost file
/// of another model, number format, tp or cp_comm_type, for one of autograd where parallel.zero
/// is not 1, and for adapters: model.adapter_rank beside a file, as with_adapters, and
/// PackFlow's costs in a file.
[[nodiscard]] std::optional<Costs> configured_cost(const RunConfig& config, const Decoder& shape);

/// The costs that configured_cost gives, for commands that do not measure. Throws as
/// configured_cost, and InvalidInput naming `origin`, the run configuration, if it names no costs.
[[nodiscard]] Costs required_cost(const RunConfig& config, const Decoder& shape,
                                  std::string_view origin);

/// The costs for a run on this device. On a CPU host_per_byte is 0, because its memory is the
/// host's, and there is no Costs::gpu.
[[nodiscard]] Costs on_device(Costs cost, DeviceKind device);

/// Measured costs for a run in which messages travel over train.links: with their time.
[[nodiscard]] Costs over_links(Costs measured, const RunConfig& config);

}  // namespace slimpack
