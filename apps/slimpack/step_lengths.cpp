#include "apps/slimpack/step_lengths.h"

#include <fmt/format.h>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/random.h"
#include "slimpack/data/indexed_dataset.h"
#include "slimpack/data/length_distribution.h"
#include "slimpack/data/lengths.h"
#include "slimpack/data/sampler.h"
#include "slimpack/job/configured_sequences.h"

namespace slimpack {
namespace {

constexpr std::int64_t kMostSteps = 10'000;

struct Documents {
  std::vector<Tokens> lengths;
  std::string source;
};

void require_one_source(const StepSource& source, const RunConfig& config,
                        std::string_view config_file) {
  std::vector<std::string> given;
  if (!source.lengths.empty()) given.push_back("--lengths " + source.lengths);
  if (!source.data.empty()) given.push_back("--data " + source.data);
  if (!source.distribution.empty()) given.push_back("--distribution " + source.distribution);
  if (given.size() > 1)
    invalid_input("{} and {} are two sources of one step; give one of them", given[0], given[1]);
  if (given.empty() && config.data.prefix.empty())
    invalid_input(
        "{}no sequences to plan; give --lengths FILE, --data PREFIX or --distribution KIND:A,B, or "
        "set data.prefix",
        config_file.empty() ? "" : fmt::format("{}: ", config_file));
}

/// `tokens`: what the steps need, of a distribution. REQUIRES: a source.
Documents documents_of(const StepSource& source, const RunConfig& config, Tokens tokens) {
  if (!source.lengths.empty()) return {read_lengths(source.lengths), stream_name(source.lengths)};
  if (!source.distribution.empty()) {
    Rng rng(config.data.seed);
    const auto drawn = parse_length_distribution(source.distribution, "--distribution");
    return {drawn_documents(drawn, rng, tokens), source.distribution};
  }
  const std::string prefix = source.data.empty() ? config.data.prefix.string() : source.data;
  return {IndexedDataset::open(prefix).lengths(), prefix};
}

}  // namespace

void add_step_source(CLI::App& command, StepSource& source) {
  command
      .add_option("--lengths", source.lengths,
                  "Plan this list: one length a line; - reads standard input")
      ->type_name("FILE");
  command.add_option("--data", source.data, "Plan steps of this dataset")->type_name("PREFIX");
  command
      .add_option("--distribution", source.distribution,
                  "Plan documents drawn from log-normal:7.5,1.9 (of the logarithm), pareto:256,1.1 "
                  "(shortest, index) or uniform:512,8192")
      ->type_name("KIND:A,B");
}

StepSamples step_samples(const StepSource& source, const RunConfig& config,
                         std::string_view config_file, std::int64_t steps) {
  if (steps < 1 || steps > kMostSteps)
    invalid_input("--steps is {}, must be 1 to {}", steps, kMostSteps);
  require_one_source(source, config, config_file);
  const Tokens each = config.data.step_tokens + config.data.context;  // at most
  const Documents documents = documents_of(source, config, each * steps);
  const SequenceRule rule = configured_sequences(config.data);
  Sampler sampler(documents.lengths, {rule, config.data.step_tokens}, {config.data.seed, 0, 0});
  StepSamples samples;
  for (std::int64_t n = 0; n < steps; ++n) {
    SequenceLengths& step = samples.steps.emplace_back();
    for (const DocumentSequence& sequence : sampler.next_step()) step.push_back(sequence.length);
  }
  samples.source =
      steps == 1
          ? fmt::format("{}, first step of seed {}", documents.source, config.data.seed)
          : fmt::format("{}, first {} steps of seed {}", documents.source, steps, config.data.seed);
  samples.long_documents = long_documents_text(documents.lengths, rule);
  return samples;
}

StepLengths step_lengths(const StepSource& source, const RunConfig& config,
                         std::string_view config_file) {
  require_one_source(source, config, config_file);
  if (source.lengths.empty()) {
    StepSamples samples = step_samples(source, config, config_file, 1);
    return {std::move(samples.steps.front()), std::move(samples.source),
            std::move(samples.long_documents)};
  }
  const std::vector<Tokens> documents = read_lengths(source.lengths);
  const SequenceRule rule = configured_sequences(config.data);
  return {sequence_lengths(documents, rule), stream_name(source.lengths),
          long_documents_text(documents, rule)};
}

}  // namespace slimpack
