// The options that ask what a whole run takes and costs.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>

#include "slimpack/report/run_bill.h"

namespace slimpack {

struct RunTermsOptions {
  std::optional<double> tokens;
  std::optional<double> price;
};

/// Adds --run-tokens and --price-per-gpu-hour. `options` must outlive the parsing, which throws
/// InvalidInput for what is no number above 0.
void add_run_terms(CLI::App& command, RunTermsOptions& options);

/// The terms of a run on so many ranks; nullopt where neither option is given. `usual_tokens`: of a
/// run for which --run-tokens is not given; 0 = not known. Throws InvalidInput if tokens are needed
/// and not known.
[[nodiscard]] std::optional<RunTerms> run_terms(const RunTermsOptions& options, std::int64_t ranks,
                                                double usual_tokens = 0);

}  // namespace slimpack
