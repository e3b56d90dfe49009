// The sequences of one step, for commands that plan without training.
#pragma once

#include <string>
#include <string_view>

#include "slimpack/base/units.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/workload/slice.h"

namespace slimpack {

struct StepLengths {
  SequenceLengths lengths;
  std::string source;          ///< where they come from, for people
  std::string long_documents;  ///< what became of those longer than the context, for people
};

/// A length list is one step of all its documents, longer ones as in training. Throws InvalidInput
/// as read_lengths.
[[nodiscard]] StepLengths listed_lengths(const std::string& file, const DataConfig& data);

/// Where a command takes its step from: the options --lengths and --data, empty where not given.
struct StepSource {
  std::string lengths;
  std::string data;
};

/// The list of --lengths, or the sampler's first step of a dataset: that of --data, or of the run
/// configuration. Throws InvalidInput naming `config_file` when there is none of these, and when
/// there are two.
[[nodiscard]] StepLengths step_lengths(const StepSource& source, const RunConfig& config,
                                       std::string_view config_file);

}  // namespace slimpack
