#include "slimpack/training/plan_basis.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/job/chosen_layout.h"
#include "slimpack/job/configured_cost.h"
#include "slimpack/job/configured_job.h"
#include "slimpack/packflow/device/device.h"
#include "slimpack/packflow/profile/kept_measurements.h"
#include "slimpack/plan/stage_layout_json.h"
#include "slimpack/training/configured_profile.h"
#include "slimpack/training/kept_cost.h"

namespace slimpack {
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
  return json.dump();
}

PlanBasis basis_from_json(const std::string& text, const std::string& origin) {
  const nlohmann::json json = parse_json(text, origin);
  const JsonFields fields(json, origin);
  return {cost_from_json(fields.text("cost"), origin + ": cost"), stage_layout_from_json(fields)};
}

}  // namespace

PlanBasis choose_plan_basis(const RunConfig& config, const Decoder& shape,
                            const TrainingStart& start, const RunState* saved,
                            const SequenceLengths& lengths, const JobAgreement& agreement,
                            TrainingListener& listener, const PlanSettings& settings) {
  const ParallelConfig& p = config.parallel;
  const bool goes_on_alike = saved != nullptr && runs_on(p, saved->grid);
  PlanBasis basis;
  const auto decide = [&](const Costs& cost) {
    Choices choices = configured_choices(config, cost);
    choices.search = settings.search;
    basis = {cost, chosen_layout(config, cost, lengths, choices)};
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
