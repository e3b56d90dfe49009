// The page of a report: HTML with style, script and data inside, for a browser without a network.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "slimpack/report/page_parts.h"
#include "slimpack/report/report_source.h"
#include "slimpack/report/run_bill.h"

namespace slimpack {

struct PageOptions {
  std::string program;  ///< that makes the report, with its version
  std::function<void()> advance =
      {};  ///< called after each of page_work() parts of the work; may be empty
  PageLimits limits = {};
  std::function<void()> tick = {};             ///< called while a part takes long; may be empty
  std::optional<RunTerms> run = std::nullopt;  ///< the run whose bill the page shows
};

/// {"format": "slimpack-report", "version": 1, "name", "title", "headline", "figures" (rivals.h),
/// "program", "about": [[what, text], …], "kinds": by SpanKind its name, title and colour,
/// "ranks_per_row": of timelines, "timelines": {"predicted", "packed", "measured"}, "memory" of the
/// same, "loads": {"predicted", "measured"}, "packs": {"plan", "packed"}, "documents": by sequence
/// [document, tokens before], "lengths", "errors", "compared": as in measured.json
/// (compared_turns.h), "curve", "rivals", "best_rival": its index or null, "run": a bill
/// (run_bill.h) or null}. Figures that were not
/// measured are null. Times are nanoseconds, memory is bytes, shares are 0 to 1. The parts are
/// those of page_parts.h and rivals.h. Cost: planning by every baseline.
[[nodiscard]] nlohmann::ordered_json page_data(const ReportSource& source,
                                               const PageOptions& options);

/// How often page_data calls `advance`.
[[nodiscard]] std::int64_t page_work();

/// The whole page for page_data. Its sources are the files in slimpack/report/page.
[[nodiscard]] std::string page_html(const nlohmann::ordered_json& data);

/// The text of slimpack/report/page/NAME. Aborts for a name that was not embedded.
[[nodiscard]] std::string_view page_source(std::string_view name);

}  // namespace slimpack
