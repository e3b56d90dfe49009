// The parts of the planner benchmark. Each prints its tables to stdout, its progress to stderr, and
// adds its cases and goals to the report.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/planner/report.h"
#include "slimpack/base/progress.h"
#include "slimpack/base/units.h"

namespace slimpack::bench {

/// The number of draws of lengths over which a part takes the mean.
inline constexpr int kSeeds = 10;

struct BenchOptions {
  int repetitions = 5;            ///< of timed planning and simulation; medians are reported
  std::int32_t effort = 1;        ///< of our planner (Choices)
  std::int32_t long_effort = 3;   ///< of the long search of part split
  std::filesystem::path lengths;  ///< real lengths for setting A and part planning
  std::string cases;  ///< parts planning, split and groups take those with this in their names
  /// The recomputation that plans of part gap may choose: a policy for all layers, "uniform" = any
  /// one policy for all layers, "auto" = any policy by layer.
  std::string recompute = "elementwise";
  /// Models, contexts and sequences of a step in parts baselines_tuned and layouts.
  std::vector<std::string> models = {"llama-3-8b", "llama-3-70b", "qwen3-32b"};
  std::vector<std::int64_t> contexts = {64, 128, 256};  ///< in K
  std::vector<std::size_t> sequences = {512, 2048};
};

/// Setting A: one replica under memory caps; how far from a full pipeline.
void run_setting_a(const BenchOptions& options, Report& report);
/// Setting B: 32 ranks in 8 replicas; how far from the ideal step.
void run_setting_b(const BenchOptions& options, Report& report);
/// Planning time beside the step that is planned, on clusters and for large steps; all options on.
void run_planning(const BenchOptions& options, Report& report);
/// The gap of cluster cases in two parts, the plan's and the bound's, by a long search for each.
void run_split(const BenchOptions& options, Report& report);
/// How far plans of all kinds of jobs are from the lower bound, and whether all are correct.
void run_gap(const BenchOptions& options, Report& report);
/// Models on 256 H100 as tp 8 × pp 4 × dp 8, against every baseline, tuned. JSON list
/// "baselines_tuned": a step by all planners.
void run_baselines_tuned(const BenchOptions& options, Report& report);
/// Every planner, tuned, at its own best layout of 256 H100. JSON list "layouts": a step by all
/// planners on all layouts.
void run_layouts(const BenchOptions& options, Report& report);
/// Steps of which one document outweighs a replica by far, with groups of up to all replicas: how
/// far the search alone is from the lower bound, and our plan beside the baselines.
void run_groups(const BenchOptions& options, Report& report);
/// Phase 1 alone: how near the lightest assignment of sequences to replicas is to its bound.
void run_shares(const BenchOptions& options, Report& report);

/// "64K" of 65,536.
[[nodiscard]] std::string in_k(Tokens tokens);

/// Progress of a part on stderr.
class PartProgress : public Progress {
 public:
  PartProgress(const std::string& part, std::int64_t total)
      : Progress(stderr, progress_style(stderr), part, total) {}
};

}  // namespace slimpack::bench
