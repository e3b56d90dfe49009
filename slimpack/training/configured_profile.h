// What a run configuration wants measured.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "slimpack/packflow/profile/profile.h"
#include "slimpack/spec/model_shape.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// For the configured ranks: as many threads at once as there are, in virtual time as run at once.
/// On GPUs, where ranks have one each (`gpu_each`), only those of one stage. `neighbours`: ranks of
/// the job on this machine, which share its memory unless they have a GPU each; absent: all of
/// them. Throws InvalidInput when there is no such device.
[[nodiscard]] ProfileOptions configured_profile(
    const RunConfig& config, const ModelShape& shape, bool gpu_each = false,
    std::optional<std::int32_t> neighbours = std::nullopt);

/// Measures; tells `tell` so in a line, as that takes some seconds, and warns it of a bad fit.
[[nodiscard]] Costs measured_costs(ProfileOptions options,
                                   const std::function<void(const std::string&)>& tell);

}  // namespace slimpack
