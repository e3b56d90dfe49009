// Measures costs for the ranks of a run configuration, and once for all points of a sweep whose
// ranks are alike.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "slimpack/cost/cost_model.h"
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

/// Finds what each point's run would find, but measures ranks that are alike only once.
class SweepCosts {
 public:
  /// `tell` gets the lines of measured_costs.
  explicit SweepCosts(std::function<void(const std::string&)> tell) : tell_(std::move(tell)) {}

  /// The configured costs. Without any, measured ones; ranks are alike if their model, number
  /// format, tp, context, number, merging, clock and device are the same. Throws InvalidInput as
  /// trained_model, configured_cost and configured_profile.
  [[nodiscard]] Costs of(const RunConfig& config);

 private:
  std::function<void(const std::string&)> tell_;
  std::deque<std::pair<ProfileOptions, Costs>> measured_;
};

}  // namespace slimpack
