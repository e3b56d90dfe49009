#include "slimpack/training/configured_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "slimpack/base/human.h"
#include "slimpack/base/threads.h"
#include "slimpack/job/configured_cost.h"
#include "slimpack/job/configured_merging.h"
#include "slimpack/job/configured_model.h"
#include "slimpack/packflow/device/device.h"
#include "slimpack/packflow/fused/fused.h"
#include "slimpack/packflow/kernels/attention_kernel.h"

namespace slimpack {

ProfileOptions configured_profile(const RunConfig& config, const Decoder& shape, bool gpu_each,
                                  std::optional<std::int32_t> neighbours) {
  const ParallelConfig& p = config.parallel;
  ProfileOptions options;
  options.shape = shape;
  options.dtype = config.train.dtype;
  options.context = config.data.context;
  // All ranks are measured at once: on one machine they slow each other down.
  options.ranks = static_cast<std::int32_t>(p.ranks());
  options.sharing = neighbours.value_or(options.ranks);
  if (config.train.clock == ClockKind::kVirtual)
    options.ranks = std::max(p.tp, std::min(options.ranks, processors()));
  if (config.train.device == DeviceKind::kCuda && gpu_each) {
    options.ranks = p.tp;
    options.sharing = 1;
  }
  // Nothing here measures what CUDA and NCCL take of its memory.
  if (config.train.device == DeviceKind::kCuda && (gpu_each || p.ranks() == 1))
    options.gpu = gpu_memory(config.hardware.value_or(HardwareSpec()));
  options.tp = p.tp;
  options.device = find_device(config.train.device);
  if (options.gpu) {
    const KernelChoice kernel =
        attention_kernel(options.device, options.dtype,
                         attention_heads(tensor_parallel_part(shape.kinds.front(), p.tp)));
    if (kernel.flash_release > 0) options.gpu->flash_attention = kernel.flash_release;
    options.gpu->fused_kernels = fused::are_there_on(options.device);
  }
  options.deterministic = config.train.same_bits();
  options.most_merged = std::min(config.plan.most_merged.value_or(kUsualMerging), p.dp);
  options.cp_comm_type = p.cp_comm_type;
  options.clock = config.train.clock;
  return options;
}

Costs measured_costs(ProfileOptions options, const std::function<void(const std::string&)>& tell) {
  const std::int32_t ranks = options.grid().ranks();
  tell(fmt::format("measuring one layer on {} {}{}, longest document {} tok", ranks,
                   options.job ? "process" : "thread",
                   ranks == 1    ? ""
                   : options.job ? "es"
                                 : "s",
                   grouped(options.context.count())));
  options.on_fit = [&tell, also = options.on_fit](const WorstFit& worst) {
    if (const auto warning = fit_warning(worst)) tell(*warning);
    if (also) also(worst);
  };
  return profile_costs(options);
}

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
