#include "slimpack/training/sweep_costs.h"

#include <tuple>

#include "slimpack/job/configured_cost.h"
#include "slimpack/job/configured_model.h"
#include "slimpack/training/configured_profile.h"

namespace slimpack {
namespace {

bool alike(const ProfileOptions& a, const ProfileOptions& b) {
  const auto key = [](const ProfileOptions& o) {
    return std::tuple(o.dtype, o.context, o.ranks, o.tp, o.most_merged, o.sharing, o.clock,
                      o.device, o.cp_comm_type);
  };
  return a.shape == b.shape && key(a) == key(b);
}

}  // namespace

Costs SweepCosts::of(const RunConfig& config) {
  const Decoder shape = trained_model(config);
  if (auto known = configured_cost(config, shape)) return *std::move(known);
  ProfileOptions options = configured_profile(config, shape);
  for (const auto& [other, cost] : measured_)
    if (alike(options, other)) return over_links(cost, config);
  return over_links(measured_.emplace_back(options, measured_costs(options, tell_)).second, config);
}

}  // namespace slimpack
