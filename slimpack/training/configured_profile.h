// Measures costs for the ranks of a run configuration.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "slimpack/packflow/profile/profile.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// Options to measure with as many threads at once as there are ranks; on the virtual clock, with
/// as many as run at once. `gpu_each`: every rank has a GPU of its own, so the ranks of one stage
/// suffice. `neighbours`: the ranks of the job on this machine, which share its memory unless each
/// has a GPU; absent = all ranks. Throws InvalidInput if there is no such device.
[[nodiscard]] ProfileOptions configured_profile(
    const RunConfig& config, const Decoder& shape, bool gpu_each = false,
    std::optional<std::int32_t> neighbours = std::nullopt);

/// Measures, which takes some seconds. Gives `tell` a line at the start, and a warning if the fit
/// is bad; calls options.on_fit, too.
[[nodiscard]] Costs measured_costs(ProfileOptions options,
                                   const std::function<void(const std::string&)>& tell);

}  // namespace slimpack
