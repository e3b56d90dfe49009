// Finds the sequences of steps, for commands that plan without training.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/plan/slice.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// The options that say which documents make how many steps. At most one names documents.
struct StepSource {
  std::string lengths;
  std::string data;
  std::string distribution;
  std::optional<std::int64_t> steps;
};

/// Adds --lengths, --data, --distribution and --steps. `source` must outlive the parsing. Returns
/// the option --steps.
CLI::Option* add_step_source(CLI::App& command, StepSource& source);

/// The rule of step_samples, for the help of commands. `usual`: how many steps are drawn without
/// --steps, as a word.
[[nodiscard]] std::string step_rule(std::string_view usual = "one");

/// Sets target_share, unless the configuration does, to that of the masks of the datasets that
/// the steps come from. Reads the masks whole. Throws InvalidInput as Documents::open.
void count_targets(DataConfig& data, const StepSource& source);

/// The steps that a command plans.
struct StepSamples {
  std::vector<SequenceLengths> steps;  ///< at least one
  std::string source;                  ///< where they come from, for people
  std::string long_documents;          ///< what became of documents above the context, for people
  bool drawn = true;                   ///< false: a whole list is the step

  /// Tokens of a step, on average.
  [[nodiscard]] Tokens mean_tokens() const;
};

/// The steps of the source by the rule that step_rule says: the list of --lengths as one step, or
/// the first steps that the sampler draws; `usual` of them without --steps. Documents longer than
/// the context become sequences as in training. Throws InvalidInput naming `config_file`, which may
/// be empty, if there is no source; if several are given; and for a number of steps that is out of
/// range.
[[nodiscard]] StepSamples step_samples(const StepSource& source, const RunConfig& config,
                                       std::string_view config_file, std::int64_t usual = 1);

}  // namespace slimpack
