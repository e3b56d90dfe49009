// The findings of the planner benchmark: cases for the JSON file, and goals.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bench/planner/rated_step.h"

namespace slimpack::bench {

/// How a figure is written: 0.0123 as "1.23%", "0.0123" or "12.3 ms" or "12".
enum class Unit : std::uint8_t { kShare, kRatio, kSeconds, kCount };
[[nodiscard]] std::string text_of(double figure, Unit unit);

/// A figure that is aimed at.
struct Goal {
  enum class Sense : std::uint8_t { kAtMost, kAtLeast };

  std::string what;
  double found = 0;
  Sense sense = Sense::kAtMost;
  double limit = 0;
  Unit unit = Unit::kRatio;

  [[nodiscard]] bool met() const {
    return sense == Sense::kAtMost ? found <= limit : found >= limit;
  }
};

class Report {
 public:
  /// A case that is no plan; `figures` is an object.
  void add(const std::string& name, std::string_view planner, nlohmann::json figures);
  /// A planned case with `more` figures.
  void add(const std::string& name, const RatedStep& rated,
           const nlohmann::json& more = nlohmann::json::object());
  /// An entry of a list of the JSON file with a name of its own.
  void add_to(const std::string& list, nlohmann::json entry);
  void add_goal(Goal goal) { goals_.push_back(std::move(goal)); }

  /// A table of all goals: what was aimed at, what was found. Empty without goals.
  [[nodiscard]] std::string goals_text() const;
  /// {"format": "slimpack-planner-bench", "version": 1, "cases": […], "goals": […]}. A case has
  /// "name", "planner", and for a plan "bubble", "worst_bubble", "peak_bytes", "makespan_ns",
  /// "lower_bound_ns", "gap", "planning_seconds" and counts of MicroPacks; or, when nothing fits,
  /// "error". Further lists: see the parts.
  [[nodiscard]] nlohmann::json json() const;

 private:
  nlohmann::json cases_ = nlohmann::json::array();
  nlohmann::json lists_ = nlohmann::json::object();
  std::vector<Goal> goals_;
};

}  // namespace slimpack::bench
