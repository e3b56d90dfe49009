// How many replicas may share a sequence, where the configuration leaves that open.
#pragma once

#include <cstdint>

#include "slimpack/cost/cost_model.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// The largest power of two that plan.most_merged, the number of replicas and the costs allow. With
/// "auto": kUsualMerging, or more where a document of the context ends sooner on more
/// (planner/paying_merge.h) or fits only there. Groups take memory (GpuGroups), so no more than
/// pays and leaves memory for that document.
[[nodiscard]] std::int32_t configured_merging(const RunConfig& config, const Costs& cost);

/// "auto" is no less, and costs are measured for no more unless plan.most_merged says so.
inline constexpr std::int32_t kUsualMerging = 8;

}  // namespace slimpack
