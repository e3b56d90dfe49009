#include "apps/slimpack/step_lengths.h"

#include <fmt/format.h>

#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/data/indexed_dataset.h"
#include "slimpack/data/lengths.h"
#include "slimpack/data/sampler.h"
#include "slimpack/job/configured_sequences.h"

namespace slimpack {

StepLengths listed_lengths(const std::string& file, const DataConfig& data) {
  const std::vector<Tokens> documents = read_lengths(file);
  const SequenceRule rule = configured_sequences(data);
  return {sequence_lengths(documents, rule), stream_name(file),
          long_documents_text(documents, rule)};
}

StepLengths step_lengths(const StepSource& source, const RunConfig& config,
                         std::string_view config_file) {
  if (!source.lengths.empty() && !source.data.empty())
    invalid_input("--lengths {} and --data {} are two sources of one step; give one of them",
                  source.lengths, source.data);
  if (!source.lengths.empty()) return listed_lengths(source.lengths, config.data);
  const std::string prefix = source.data.empty() ? config.data.prefix.string() : source.data;
  if (prefix.empty())
    invalid_input(
        "{}: no sequences to plan; give --lengths FILE or --data PREFIX, or set "
        "data.prefix",
        config_file);
  const std::vector<Tokens> documents = IndexedDataset::open(prefix).lengths();
  const SequenceRule rule = configured_sequences(config.data);
  Sampler sampler(documents, {rule, config.data.step_tokens}, {config.data.seed, 0, 0});
  StepLengths step;
  for (const DocumentSequence& sequence : sampler.next_step())
    step.lengths.push_back(sequence.length);
  step.source = fmt::format("{}, first step of seed {}", prefix, config.data.seed);
  step.long_documents = long_documents_text(documents, rule);
  return step;
}

}  // namespace slimpack
