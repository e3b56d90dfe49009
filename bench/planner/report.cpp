#include "bench/planner/report.h"

#include <fmt/format.h>

#include "slimpack/base/human.h"
#include "slimpack/base/table.h"

namespace slimpack::bench {

std::string text_of(double figure, Unit unit) {
  switch (unit) {
    case Unit::kShare:
      return fmt::format("{:.2f}%", 100 * figure);
    case Unit::kRatio:
      return fmt::format("{:.3f}", figure);
    case Unit::kSeconds:
      return human_duration(from_seconds(figure));
    case Unit::kCount:
      return fmt::format("{:.0f}", figure);
  }
  return {};
}

void Report::add(const std::string& name, std::string_view planner, nlohmann::json figures) {
  nlohmann::json one{{"name", name}, {"planner", planner}};
  one.update(figures);
  cases_.push_back(std::move(one));
}

void Report::add(const std::string& name, const RatedStep& rated, const nlohmann::json& more) {
  nlohmann::json figures = to_json(rated);
  figures.update(more);
  add(name, rated.planner, std::move(figures));
}

void Report::add_to(const std::string& list, nlohmann::json entry) {
  lists_[list].push_back(std::move(entry));
}

std::string Report::goals_text() const {
  if (goals_.empty()) return {};
  Table table({{"goal", Align::kLeft}, {"aimed at"}, {"found"}, {"", Align::kLeft}});
  for (const Goal& g : goals_)
    table.add_row({g.what,
                   fmt::format("{} {}", g.sense == Goal::Sense::kAtMost ? "≤" : "≥",
                               text_of(g.limit, g.unit)),
                   text_of(g.found, g.unit), g.met() ? "met" : "missed"});
  return table.text();
}

nlohmann::json Report::json() const {
  nlohmann::json goals = nlohmann::json::array();
  for (const Goal& g : goals_)
    goals.push_back({{"what", g.what},
                     {"found", g.found},
                     {g.sense == Goal::Sense::kAtMost ? "at_most" : "at_least", g.limit},
                     {"met", g.met()}});
  nlohmann::json json{{"format", "slimpack-planner-bench"},
                      {"version", 1},
                      {"cases", cases_},
                      {"goals", std::move(goals)}};
  json.update(lists_);
  return json;
}

}  // namespace slimpack::bench
