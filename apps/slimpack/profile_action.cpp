#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "apps/slimpack/output_options.h"
#include "apps/slimpack/training_commands.h"
#include "apps/slimpack/untrainable_model.h"
#include "slimpack/base/file.h"
#include "slimpack/base/human.h"
#include "slimpack/base/json_text.h"
#include "slimpack/base/table.h"
#include "slimpack/job/configured_model.h"
#include "slimpack/packflow/profile/profile_parts.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/training/configured_profile.h"
#include "slimpack/training/console.h"

namespace slimpack {
namespace {

double ratio(Nanos backward, Nanos forward) {
  return static_cast<double>(backward.count()) / static_cast<double>(forward.count());
}

std::string ratio_table(const std::vector<PassRatio>& ratios) {
  Table table({{"tokens"}, {"attention F"}, {"B"}, {"B : F"}, {"linear F"}, {"B"}, {"B : F"}});
  for (const PassRatio& r : ratios)
    table.add_row({grouped(r.tokens.count()), human_duration(r.attention_forward),
                   human_duration(r.attention_backward),
                   fmt::format("{:.2f}", ratio(r.attention_backward, r.attention_forward)),
                   human_duration(r.linear_forward), human_duration(r.linear_backward),
                   fmt::format("{:.2f}", ratio(r.linear_backward, r.linear_forward))});
  return table.text();
}

nlohmann::json ratios_to_json(const std::vector<PassRatio>& ratios) {
  nlohmann::json result = nlohmann::json::array();
  for (const PassRatio& r : ratios)
    result.push_back({{"tokens", r.tokens.count()},
                      {"attention_forward_ns", r.attention_forward.count()},
                      {"attention_backward_ns", r.attention_backward.count()},
                      {"linear_forward_ns", r.linear_forward.count()},
                      {"linear_backward_ns", r.linear_backward.count()}});
  return result;
}

std::string coefficient_table(const Costs& cost) {
  Table table({{"one layer, ns", Align::kLeft}, {"forward"}, {"backward"}, {"of it weights"}});
  const LayerCosts& kind = cost.kinds.front();
  const auto row = [&](const char* name, double PackCost::*field, double weights = 0) {
    table.add_row({name, fmt::format("{:.4g}", kind.forward.*field),
                   fmt::format("{:.4g}", kind.backward.*field), fmt::format("{:.4g}", weights)});
  };
  row("per MicroPack", &PackCost::per_pack, kind.weight_gradient.per_pack);
  row("per slice", &PackCost::per_slice);
  row("per token", &PackCost::per_token, kind.weight_gradient.per_token);
  row("per query-key pair", &PackCost::per_pair);
  row("per prefix token", &PackCost::per_prefix_token);
  row(fmt::format("per row below {}", PackCost::kFullRows.count()).c_str(),
      &PackCost::per_missing_row);
  return table.text();
}

/// The time of a layer of merged MicroPacks beyond each member's share.
std::string merge_table(const Costs& cost) {
  const std::vector<MergeTime>& merge = cost.kinds.front().merge;
  if (merge.empty()) return "";
  Table table(
      {{"merged, ns more", Align::kLeft}, {"forward"}, {"a token"}, {"backward"}, {"a token"}});
  for (std::size_t k = 0; k < merge.size(); ++k) {
    const MergeTime& m = merge[k];
    table.add_row({fmt::format("over {}", 2 << k), fmt::format("{:.4g}", m.forward.per_pack),
                   fmt::format("{:.4g}", m.forward.per_token),
                   fmt::format("{:.4g}", m.backward.per_pack),
                   fmt::format("{:.4g}", m.backward.per_token)});
  }
  return "\n" + table.text();
}

}  // namespace

void profile(const ProfileArguments& arguments) {
  const RunConfig config = read_run_config(arguments.config, arguments.overrides);
  // A saved profile is for jobs with one GPU per rank. 'slimpack train' measures ranks that share a
  // GPU.
  const PlannableModel model = planned_model(config);
  tell_untrainable(config, model);
  ProfileOptions options =
      configured_profile(config, measured_shape(config, model), /*gpu_each=*/true);
  const auto tell = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  KeptMeasurements kept(arguments.out + ".partial", options.job_text());
  if (kept.goes_on())
    tell(fmt::format("going on with the measurements in {}.partial", arguments.out));
  options.kept = &kept;
  MeasuringLine progress(stderr);
  options.on_run = [&](std::string_view part, std::int64_t done, std::int64_t all) {
    progress.tell(part, done, all);
  };
  const Costs cost = measured_costs(options, tell);
  const std::vector<PassRatio> ratios = measure_pass_ratios(options);
  write_file(arguments.out, cost_to_json(cost));
  kept.remove();
  if (!arguments.json.empty())
    write_file(arguments.json, json_text(ratios_to_json(ratios), 2) + "\n");
  std::FILE* const out = report_stream({arguments.out, arguments.json});
  fmt::print(out, "{}\n\nBackward against forward, one layer on one whole document:\n\n{}\n{}{}\n",
             cost.origin.source, ratio_table(ratios), coefficient_table(cost), merge_table(cost));
  if (config.train.device == DeviceKind::kCuda)
    fmt::print(
        out,
        "transfers and reductions are between threads of one GPU; processes that train without a "
        "cost file measure theirs\n");
  fmt::print(
      out,
      "memory of a rank: {}\nlargest error of the fit: {}\nmean error on sizes that it has not "
      "seen: {}\nwritten: {}\n",
      human_bytes(cost.device.memory), human_share(cost.origin.fit_error),
      cost.origin.held_out_error > 0 ? human_share(cost.origin.held_out_error)
                                     : "none was affordable",
      arguments.out);
}

}  // namespace slimpack
