// Reports a layout search to people.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/planner/layout_search.h"
#include "slimpack/report/run_bill.h"

namespace slimpack {

/// A search with steps of one size, on one kind of machines.
struct LayoutReport {
  Tokens step_tokens;                      ///< what a step is filled to
  Tokens tokens;                           ///< of a sampled step, on average
  std::vector<RatedLayout> layouts;        ///< as search_layouts gives them
  std::vector<ParallelGrid> usual;         ///< of those
  std::string hardware = {};               ///< the machines' name, for people
  Tokens context = {};                     ///< the most tokens of a sequence
  std::vector<std::string> settings = {};  ///< of this search, as --set takes them

  /// At the mean step time. REQUIRES: a layout with planned steps.
  [[nodiscard]] double tokens_per_second(const RatedLayout& layout) const;
};

/// The report whose best layout trains the most tokens per second. REQUIRES: any report.
[[nodiscard]] const LayoutReport& best_of(const std::vector<LayoutReport>& reports);

/// The keys of a run file that make this layout of it, as --set takes them.
[[nodiscard]] std::vector<std::string> layout_settings(const RatedLayout& layout);

/// A run with the best layout of each search, the fastest first, and with the usual layouts of the
/// fastest search. Layouts without planned steps are left out.
[[nodiscard]] std::vector<RunSpeed> run_speeds(const std::vector<LayoutReport>& reports);

/// The ten best layouts of all searches, how many others there are and why they are not shown; what
/// was held fixed, the known error and the best layout's settings, after `settings` of the whole
/// run; and what the usual layouts lose where. Lines have at most `columns` columns.
[[nodiscard]] std::string layouts_text(const std::vector<LayoutReport>& reports,
                                       const std::vector<std::string>& settings, int columns);

/// {"format": "slimpack-layouts", "version": 1, "searches": [{"hardware": …, "context": …,
/// "step_tokens": …, "tokens": …, "layouts": […]}]}, the fastest layout first. Times are in
/// nanoseconds.
[[nodiscard]] nlohmann::json layouts_json(const std::vector<LayoutReport>& reports);

/// An SVG: a cell for every layout, with tp by row and pp by column, which says tokens per second
/// and dp. Darker cells are faster. `title`: above the cells.
[[nodiscard]] std::string layout_svg(const LayoutReport& report, std::string_view title);

}  // namespace slimpack
