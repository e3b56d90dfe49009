// Finds the sequences of one step, for commands that plan without training.
#pragma once

#include <string>
#include <string_view>

#include "slimpack/base/units.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/workload/slice.h"

namespace slimpack {

struct StepLengths {
  SequenceLengths lengths;
  std::string source;          ///< where the lengths come from, for people
  std::string long_documents;  ///< what became of documents above the context, for people
};

/// All documents of a length list as one step. Documents longer than the context become sequences
/// as in training. Throws InvalidInput as read_lengths.
[[nodiscard]] StepLengths listed_lengths(const std::string& file, const DataConfig& data);

/// The options --lengths and --data, which name the source of a step; empty if not given.
struct StepSource {
  std::string lengths;
  std::string data;
};

/// The list of --lengths, or the sampler's first step of the dataset of --data, else of the run
/// configuration's dataset. Throws InvalidInput naming `config_file` if there is no source, and if
/// both options are given.
[[nodiscard]] StepLengths step_lengths(const StepSource& source, const RunConfig& config,
                                       std::string_view config_file);

}  // namespace slimpack
