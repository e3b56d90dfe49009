#include "slimpack/run/step_lines.h"

#include <fmt/format.h>

#include <array>

#include "slimpack/base/columns.h"
#include "slimpack/base/human.h"

namespace slimpack {
namespace {

/// A shorter wait is that of handing over a plan that was ready.
constexpr Nanos kRealWait(1'000'000);

}  // namespace

std::string step_line(const StepFigures& f, const StepPlace& place, int columns) {
  const std::int64_t left = place.steps - f.step;
  const std::string time =
      left > 0 ? human_duration(place.elapsed / (f.step - place.done_before) * left) + " left"
               : "took " + human_duration(place.elapsed);
  std::string line = fmt::format("step {:>{}}/{}  loss {:.4f}  {}", f.step,
                                 fmt::formatted_size("{}", place.steps), place.steps, f.loss, time);
  // The most important part comes first. A narrow terminal drops the parts that do not fit.
  const std::array<std::string, 6> parts{
      fmt::format("  {} tok/s", human_count(f.tokens_per_second())),
      fmt::format("  bubble {}", human_share(f.bubble)),
      fmt::format(" (predicted {})", human_share(f.predicted_bubble)),
      fmt::format("  peak {}", human_bytes(largest(f.peak_activation))),
      fmt::format("  {} tok in {}", human_count(static_cast<double>(f.tokens.count())),
                  counted(f.documents, "doc")),
      f.planning_wait < kRealWait
          ? ""
          : fmt::format("  waited {} for the plan", human_duration(f.planning_wait))};
  for (const std::string& part : parts) {
    if (text_width(line) + text_width(part) > static_cast<std::size_t>(columns)) break;
    line += part;
  }
  return line;
}

std::string evaluation_line(const EvaluationFigures& f) {
  return fmt::format("evaluation after step {}: loss {:.4f} on {} tok in {}, took {}", f.step,
                     f.result.loss, human_count(static_cast<double>(f.result.tokens.count())),
                     counted(f.result.documents, "doc"), human_duration(f.result.time));
}

}  // namespace slimpack
