// Options of benchmarks that train steps of real documents.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "slimpack/base/units.h"

namespace slimpack {

/// Rounds of the planner's search: steps of many seconds are worth a second of planning, which
/// overlaps the step before.
inline constexpr std::int32_t kStepEffort = 3;

struct StepOptions {
  Tokens context{16384};
  Tokens step_tokens{65536};
  int repetitions = 3;
  std::string json;
};

/// --context, --step-tokens, --repetitions, --quick and --json. Keeps a reference.
void add_step_options(CLI::App& app, StepOptions& options);

}  // namespace slimpack
