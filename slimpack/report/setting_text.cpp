#include "slimpack/report/setting_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

constexpr std::string_view kPlan = "plan.";
constexpr std::string_view kParallel = "parallel.";

/// Numbers as they are, names quoted.
std::string python_value(std::string_view value) {
  const bool number =
      std::ranges::all_of(value, [](char digit) { return digit >= '0' && digit <= '9'; });
  return fmt::format("{0}{1}{0}", number ? "" : "\"", value);
}

std::string job_call(const std::vector<std::string>& settings, const ParallelGrid& grid) {
  std::string text = "Job(...";
  bool regrouped = false;
  for (const std::string_view setting : settings) {
    if (setting.starts_with(kParallel)) {
      regrouped = true;
      continue;
    }
    SLIMPACK_CHECK(setting.starts_with(kPlan));
    const std::size_t equals = setting.find('=');
    text += fmt::format(", {}={}", setting.substr(kPlan.size(), equals - kPlan.size()),
                        python_value(setting.substr(equals + 1)));
  }
  if (regrouped)
    text +=
        fmt::format(", parallel={{\"pp\": {}, \"dp\": {}, \"tp\": {}}}", grid.pp, grid.dp, grid.tp);
  return text + ")";
}

}  // namespace

std::string setting_text(const std::vector<std::string>& settings, const ParallelGrid& grid,
                         Reader reader) {
  if (reader == Reader::kPython) return job_call(settings, grid);
  return fmt::format("--set {}", fmt::join(settings, " --set "));
}

}  // namespace slimpack
