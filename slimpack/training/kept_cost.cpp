#include "slimpack/training/kept_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <sstream>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/human.h"
#include "slimpack/packflow/device/device_memory.h"
#include "slimpack/packflow/profile/measured_here.h"

namespace slimpack {

namespace fs = std::filesystem;

namespace {

/// Other programs, cooling and neighbours of a virtual machine change from day to day.
constexpr std::chrono::hours kFresh(24);

Nanos age_of(const fs::path& file) {
  const auto age = fs::file_time_type::clock::now() - fs::last_write_time(file);
  return std::max(Nanos(0),
                  Nanos(std::chrono::duration_cast<std::chrono::nanoseconds>(age).count()));
}

/// Compares two texts of ProfileOptions. Empty = no setting differs.
std::string setting_that_differs(const std::string& theirs, const std::string& ours) {
  std::istringstream their_words(theirs), our_words(ours);
  std::string name, value, our_name, our_value;
  while (our_words >> our_name >> our_value) {
    if (!(their_words >> name >> value) || name != our_name)
      return "it does not say for which settings it was measured";
    if (value != our_value)
      return fmt::format("{} was {} when it was measured, here it is {}", name, value, our_value);
  }
  return "";
}

/// Why the costs are not those of a profile with these options here; empty = they are.
std::string difference(const Costs& cost, const ProfileOptions& options) {
  Decoder shape = options.shape;
  shape.rope_scaling = cost.shape.rope_scaling;  // which changes no cost
  if (cost.origin.measured_on != measured_here(options.device))
    return "it is of another machine or torch";
  if (cost.shape != shape) return "it is of another model";
  if (cost.dtype != options.dtype)
    return fmt::format("it is in {}, this run in {}", to_string(cost.dtype),
                       to_string(options.dtype));
  if (cost.device.gpu && options.gpu &&
      cost.device.gpu->flash_attention != options.gpu->flash_attention)
    return fmt::format("it is of FlashAttention-{}, this run takes FlashAttention-{}",
                       cost.device.gpu->flash_attention, options.gpu->flash_attention);
  if (cost.device.gpu && options.gpu &&
      cost.device.gpu->fused_kernels != options.gpu->fused_kernels)
    return fmt::format("it is of a build with{} fused kernels, unlike this one",
                       cost.device.gpu->fused_kernels ? "" : "out");
  return setting_that_differs(cost.origin.measured_for, options.settings_text());
}

struct Found {
  std::optional<Costs> cost;  ///< of a profile with these options
  std::string useless;        ///< why there are no costs; empty = there is no file
};

Found find(const fs::path& file, const ProfileOptions& options) {
  std::error_code error;
  if (!fs::exists(file, error)) return {};
  try {
    Costs cost = cost_from_json(read_file(file, "cost file"), file.string());
    std::string useless = difference(cost, options);
    if (!useless.empty()) return {std::nullopt, std::move(useless)};
    return {std::move(cost), ""};
  } catch (const InvalidInput& e) {
    return {std::nullopt, e.what()};
  }
}

}  // namespace

Costs kept_or_measured(const fs::path& file, const ProfileOptions& options,
                       const std::function<FreshCosts()>& measure,
                       const std::function<void(const std::string&)>& tell) {
  Found found = find(file, options);
  if (found.cost) {
    const Nanos age = age_of(file);
    if (age <= Nanos(std::chrono::nanoseconds(kFresh).count())) {
      tell(fmt::format("this machine was measured {} ago: {}; remove it to measure anew",
                       human_duration(age), file.string()));
      found.cost->device.memory = device_memory(options.device) / options.sharing;
      found.cost->device.gpu = options.gpu;
      return *std::move(found.cost);
    }
    tell(fmt::format("{} is {} old, older than a day", file.string(), human_duration(age)));
  } else if (!found.useless.empty()) {
    tell(fmt::format("{} stays as it is and is not used: {}", file.string(), found.useless));
  }
  FreshCosts fresh = measure();
  if (found.useless.empty() && !fresh.disturbed) write_file(file, cost_to_json(fresh.cost));
  return std::move(fresh.cost);
}

}  // namespace slimpack
