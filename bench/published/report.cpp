#include "bench/published/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "bench/published/fit.h"
#include "slimpack/base/table.h"

namespace slimpack::bench {
namespace {

constexpr int kColumns = 80;
constexpr double kGib = 0x1p30;

std::string percent(double share) {
  return fmt::format("{:.1f}%", 100 * share);
}

std::string with_sign(double share) {
  return fmt::format("{:+.1f}%", 100 * share);
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::string sets_text(const std::map<std::string, SetFigures>& sets) {
  Table table({{"set", Align::kLeft},
               {"steps"},
               {"mean"},
               {"median"},
               {"worst"},
               {"bias"},
               {"tau"},
               {"memory"}});
  for (const auto& [name, set] : sets) {
    if (set.steps == 0) continue;
    const bool timed = set.time.count > 0;
    table.add_row({name, fmt::format("{}", set.steps), timed ? percent(set.time.mean) : "",
                   timed ? percent(set.time.median) : "", timed ? percent(set.time.worst) : "",
                   timed ? with_sign(set.time.bias) : "",
                   !set.choice_losses.empty() ? fmt::format("{:.2f}", set.ranking.tau()) : "",
                   set.memory.count > 0 ? percent(set.memory.mean) : ""});
  }
  return table.text(kColumns);
}

std::string choices_text(const std::map<std::string, SetFigures>& sets) {
  Table table({{"the layout predicted fastest", Align::kLeft},
               {"choices"},
               {"slower than the fastest: mean"},
               {"worst"}});
  for (const auto& [name, set] : sets) {
    const std::vector<double>& losses = set.choice_losses;
    if (losses.empty()) continue;
    table.add_row({name, fmt::format("{}", losses.size()), percent(mean_of(losses)),
                   percent(std::ranges::max(losses))});
  }
  return table.text(kColumns);
}

std::map<std::string, std::int64_t> reasons_of(const std::vector<Outcome>& outcomes) {
  std::map<std::string, std::int64_t> reasons;
  for (const Outcome& outcome : outcomes)
    if (!outcome.expressed()) ++reasons[outcome.not_because];
  return reasons;
}

std::map<std::int32_t, std::vector<Compared>> by_ranks(const std::vector<AllReduce>& all_reduces,
                                                       const HardwareSpec& hardware) {
  std::map<std::int32_t, std::vector<Compared>> by_ranks;
  for (const AllReduce& one : all_reduces)
    by_ranks[one.ranks].push_back({all_reduce_seconds(hardware, one), one.seconds});
  return by_ranks;
}

nlohmann::json errors_json(const Errors& errors) {
  return {{"count", errors.count},
          {"mean_error", errors.mean},
          {"median_error", errors.median},
          {"worst_error", errors.worst},
          {"bias", errors.bias}};
}

nlohmann::json set_json(const std::string& name, const SetFigures& set) {
  nlohmann::json json{{"set", name}, {"steps", set.steps}, {"not_expressed", set.left_out}};
  if (set.time.count > 0) json.update(errors_json(set.time));
  if (set.memory.count > 0) {
    json["memory_steps"] = set.memory.count;
    json["memory_mean_error"] = set.memory.mean;
    json["memory_worst_error"] = set.memory.worst;
  }
  if (!set.choice_losses.empty()) {
    json["rank_correlation"] = set.ranking.tau();
    json["ranked_pairs"] = set.ranking.concordant + set.ranking.discordant;
    json["choices"] = set.choice_losses.size();
    json["choice_mean_loss"] = mean_of(set.choice_losses);
    json["choice_worst_loss"] = std::ranges::max(set.choice_losses);
  }
  return json;
}

nlohmann::json step_json(const Outcome& outcome) {
  nlohmann::json json{{"id", outcome.step.id}, {"set", outcome.set}};
  if (!outcome.expressed()) json["not_expressed"] = outcome.not_because;
  if (outcome.timed()) {
    json["seconds"] = outcome.step.seconds;
    json["predicted_seconds"] = outcome.seconds;
    json["error"] = outcome.time().error();
  }
  if (outcome.weighed()) {
    json["memory_bytes"] = outcome.step.memory;
    json["predicted_memory_bytes"] = outcome.memory;
    json["memory_error"] = outcome.bytes().error();
  }
  return json;
}

}  // namespace

std::string summary_text(const std::vector<Outcome>& outcomes,
                         const std::vector<AllReduce>& all_reduces, const HardwareSpec& hardware) {
  std::string text = "Errors of predicted step times; tau ranks layouts; memory: mean error\n\n";
  const std::map<std::string, SetFigures> sets = figures_of(outcomes);
  text += sets_text(sets);
  text += "\n" + choices_text(sets);
  Table links({{"all-reduces of", Align::kLeft}, {"sizes"}, {"mean"}, {"worst"}});
  for (const auto& [ranks, times] : by_ranks(all_reduces, hardware)) {
    const Errors errors = errors_of(times);
    links.add_row({fmt::format("{} A100", ranks), fmt::format("{}", errors.count),
                   percent(errors.mean), percent(errors.worst)});
  }
  text += "\n" + links.text(kColumns);
  Table left({{"not expressed, because", Align::kLeft}, {"steps"}});
  for (const auto& [reason, count] : reasons_of(outcomes))
    left.add_row({reason, fmt::format("{}", count)});
  return text + "\n" + left.text(kColumns);
}

std::string each_text(const std::vector<Outcome>& outcomes) {
  Table steps({{"step", Align::kLeft}, {"s"}, {"error"}, {"GiB"}, {"error"}});
  Table left({{"step", Align::kLeft}, {"not expressed, because", Align::kLeft}});
  for (const Outcome& outcome : outcomes) {
    const PublishedStep& step = outcome.step;
    if (!outcome.expressed()) {
      left.add_row({step.id, outcome.not_because});
      continue;
    }
    steps.add_row({step.id, outcome.timed() ? fmt::format("{:.4g}", step.seconds) : "",
                   outcome.timed() ? with_sign(outcome.time().error()) : "",
                   outcome.weighed() ? fmt::format("{:.1f}", step.memory / kGib) : "",
                   outcome.weighed() ? with_sign(outcome.bytes().error()) : ""});
  }
  return steps.text(kColumns) + "\n" + left.text(kColumns);
}

nlohmann::json report_json(const std::vector<Outcome>& outcomes,
                           const std::vector<AllReduce>& all_reduces,
                           const HardwareSpec& hardware) {
  nlohmann::json json{{"format", "slimpack-published-bench"}, {"version", 1}};
  for (const auto& [name, set] : figures_of(outcomes)) json["sets"].push_back(set_json(name, set));
  for (const auto& [reason, count] : reasons_of(outcomes))
    json["not_expressed"].push_back({{"reason", reason}, {"steps", count}});
  for (const auto& [ranks, times] : by_ranks(all_reduces, hardware)) {
    nlohmann::json entry = errors_json(errors_of(times));
    entry["ranks"] = ranks;
    json["all_reduces"].push_back(entry);
  }
  for (const Outcome& outcome : outcomes) json["steps"].push_back(step_json(outcome));
  return json;
}

}  // namespace slimpack::bench
