// Finds the sequences of steps, for commands that plan without training.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/workload/slice.h"

namespace slimpack {

struct StepLengths {
  SequenceLengths lengths;
  std::string source;          ///< where the lengths come from, for people
  std::string long_documents;  ///< what became of documents above the context, for people
};

/// The options that name documents; at most one is given.
struct StepSource {
  std::string lengths;
  std::string data;
  std::string distribution;
};

/// Adds --lengths, --data and --distribution. `source` must outlive the parsing.
void add_step_source(CLI::App& command, StepSource& source);

/// For the help of commands that plan one step or several.
inline constexpr const char* kWithoutSource =
    "Without --lengths, --data and --distribution, the dataset is data.prefix of the run "
    "configuration. Without --steps, a list is one step.";

/// All documents of the list of --lengths as one step. Else the first step that the sampler draws
/// from the dataset of --data, from the documents of --distribution or from the run configuration's
/// dataset. Documents longer than the context become sequences as in training. Throws InvalidInput
/// naming `config_file`, which may be empty, if there is no source, and if several are given.
[[nodiscard]] StepLengths step_lengths(const StepSource& source, const RunConfig& config,
                                       std::string_view config_file);

/// Several steps of one run.
struct StepSamples {
  std::vector<SequenceLengths> steps;
  std::string source;
  std::string long_documents;
};

/// The first `steps` steps of data.step_tokens that training would draw from the documents, also
/// from those of --lengths. Throws InvalidInput as step_lengths, and for less than one step.
[[nodiscard]] StepSamples step_samples(const StepSource& source, const RunConfig& config,
                                       std::string_view config_file, std::int64_t steps);

}  // namespace slimpack
