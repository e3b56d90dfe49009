// Planning time on one thread: Llama-2 7B on 64 and 512 ranks, with and without DP-Merge, with and
// without a memory cap.
#include <fmt/format.h>

#include <algorithm>

#include "bench/planner/jobs.h"
#include "bench/planner/parts.h"
#include "slimpack/base/human.h"
#include "slimpack/base/table.h"

namespace slimpack::bench {

namespace {

struct Size {
  std::size_t sequences;
  std::int32_t replicas;
  double limit;  ///< seconds
};

constexpr Size kSizes[] = {{512, 8, 0.025}, {4096, 64, 0.200}};

std::vector<std::string> row_of(const LlamaJob& job, const StepJob& planned,
                                const RatedStep& step) {
  std::vector<std::string> row{fmt::format("{}", job.sequences),
                               fmt::format("8 × {}", job.replicas),
                               job.most_merged > 1 ? "up to 8" : "no",
                               job.capped ? human_bytes(*planned.job.memory_cap) : "none",
                               text_of(step.planning_seconds, Unit::kSeconds)};
  if (step.step)
    row.insert(row.end(), {text_of(step.figures.gap, Unit::kShare),
                           text_of(step.figures.bubble, Unit::kShare)});
  else
    row.insert(row.end(), {step.error, ""});
  return row;
}

}  // namespace

void run_speed(const BenchOptions& options, Report& report) {
  PartProgress progress("planning speed", 8);
  Table table(
      {{"sequences"}, {"pp × dp"}, {"merging"}, {"cap"}, {"planned in"}, {"gap"}, {"bubble"}});
  for (const Size& size : kSizes)
    for (const std::int32_t most_merged : {1, 8}) {
      const char* merging = most_merged > 1 ? "merging" : "plain";
      double slower = 0;
      for (const bool capped : {false, true}) {
        const LlamaJob job{size.sequences, size.replicas, most_merged, capped};
        StepJob planned = llama_job(job);
        planned.choices.effort = options.effort;
        const RatedStep step = rated(planned, options.repetitions);
        slower = std::max(slower, step.planning_seconds);
        table.add_row(row_of(job, planned, step));
        report.add(fmt::format("speed/{}/{}/{}", size.sequences, merging, capped ? "cap" : "free"),
                   step);
        progress.advance();
      }
      report.add_goal({fmt::format("speed: planning {} sequences, {}, slower of no cap and a cap",
                                   size.sequences, merging),
                       slower, Goal::Sense::kAtMost, size.limit, Unit::kSeconds});
    }
  progress.finish();
  fmt::print(
      "\nPlanning speed: Llama-2 7B, default hardware, one thread, medians of {} "
      "repetition{}\n\n{}",
      options.repetitions, options.repetitions == 1 ? "" : "s", table.text());
}

}  // namespace slimpack::bench
