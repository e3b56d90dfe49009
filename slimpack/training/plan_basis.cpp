#include "slimpack/training/plan_basis.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/human.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/base/json_text.h"
#include "slimpack/job/configured_cost.h"
#include "slimpack/job/configured_job.h"
#include "slimpack/job/configured_layouts.h"
#include "slimpack/packflow/device/device.h"
#include "slimpack/packflow/profile/kept_measurements.h"
#include "slimpack/plan/plan_json.h"
#include "slimpack/training/configured_profile.h"

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

namespace {

/// The number of the job's processes on this process's machine.
std::int32_t processes_here(JobProcess& process) {
  std::array<char, 256> name{};
  SLIMPACK_CHECK(::gethostname(name.data(), name.size() - 1) == 0);
  const std::string own(name.data());
  return static_cast<std::int32_t>(std::ranges::count(process.all_gather(own), own));
}

/// Kept ones, else measured by all processes together; threads of this one stand for the ranks if
/// it is alone.
Costs measured(const RunConfig& config, const Decoder& shape, const JobAgreement& agreement,
               TrainingListener& listener, const std::filesystem::path& kept) {
  std::optional<std::int32_t> neighbours;
  if (!agreement.alone()) neighbours = processes_here(*agreement.process());
  ProfileOptions options =
      configured_profile(config, shape, /*gpu_each=*/!agreement.alone(), neighbours);
  const ParallelConfig& p = config.parallel;
  const auto tell = [&](const std::string& line) {
    if (agreement.first()) listener.note("", line);
  };
  if (agreement.first())
    options.on_run = [&](std::string_view part, std::int64_t done, std::int64_t all) {
      listener.measuring(part, done, all);
    };
  if (agreement.alone() && !kept.empty()) {
    const auto measure = [&] {
      FreshCosts fresh;
      options.on_fit = [&](const WorstFit& worst) { fresh.disturbed = disturbed(worst); };
      fresh.cost = measured_costs(options, tell);
      return fresh;
    };
    return kept_or_measured(kept, options, measure, tell);
  }
  if (!agreement.alone()) options.job = {agreement.process(), rank_grid(p)};
  return measured_costs(std::move(options), tell);
}

/// Whether a run of such ranks can go on with stages as these ranks had them.
bool runs_on(const ParallelConfig& p, const RankGrid& grid) {
  const bool same_stages =
      p.chooses_stages ? !grid.placement.turns_back()
                       : grid.placement == StagePlacement::of(p.placement, p.pp, p.stages_per_rank);
  return p.pp == grid.pipeline && p.dp == grid.replicas && p.tp == grid.tensor && same_stages &&
         (p.chooses_vocabulary || p.spread_vocabulary == grid.spread_vocabulary);
}

std::string basis_to_json(const PlanBasis& basis) {
  nlohmann::json json = stage_layout_to_json(basis.layout);
  json["cost"] = cost_to_json(basis.cost);
  return json_text(json);
}

PlanBasis basis_from_json(const std::string& text, const std::string& origin) {
  const nlohmann::json json = parse_json(text, origin);
  const JsonFields fields(json, origin);
  return {cost_from_json(fields.text("cost"), origin + ": cost"), stage_layout_from_json(fields)};
}

}  // namespace

PlanBasis choose_plan_basis(const RunConfig& config, const Decoder& shape,
                            const TrainingStart& start, const RunState* saved,
                            const StepBatch& first, const JobAgreement& agreement,
                            TrainingListener& listener, const PlanSettings& settings) {
  const ParallelConfig& p = config.parallel;
  const bool goes_on_alike = saved != nullptr && runs_on(p, saved->grid);
  PlanBasis basis;
  const auto decide = [&](const Costs& cost) {
    Choices choices = configured_choices(config, cost);
    choices.search = settings.search;
    Costs of_first = cost;
    of_first.ends.target_share = first.target_share();
    basis = {cost, chosen_layout(config, of_first, lengths_of(first.sequences), choices)};
    return agreement.alone() ? "known" : basis_to_json(basis);
  };
  std::string text = agreement.from_first([&]() -> std::string {
    if (goes_on_alike) {
      const std::filesystem::path file = start.checkpoint->folder / kCostFile;
      basis = {on_device(cost_from_json(read_file(file, "cost file"), file.string()),
                         config.train.device),
               saved->layout};
      return agreement.alone() ? "known" : basis_to_json(basis);
    }
    if (settings.cost) return decide(*settings.cost);
    const auto cost = configured_cost(config, shape);
    if (!cost) return "";
    require_measured_here(*cost, find_device(config.train.device), config.cost.file);
    return decide(*cost);
  });
  if (text.empty()) {
    const Costs cost =
        over_links(measured(config, shape, agreement, listener, settings.kept_cost), config);
    text = agreement.from_first([&] { return decide(cost); });
  }
  return agreement.first() ? basis : basis_from_json(text, "costs and layers of rank 0");
}

}  // namespace slimpack
