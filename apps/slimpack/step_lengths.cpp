#include "apps/slimpack/step_lengths.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <iterator>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/human.h"
#include "slimpack/data/documents.h"
#include "slimpack/data/indexed_dataset.h"
#include "slimpack/data/length_distribution.h"
#include "slimpack/data/lengths.h"
#include "slimpack/job/configured_sequences.h"

namespace slimpack {
namespace {

void require_one_source(const StepSource& source, const RunConfig& config,
                        std::string_view config_file) {
  std::vector<std::string> given;
  if (!source.lengths.empty()) given.push_back("--lengths " + source.lengths);
  if (!source.data.empty()) given.push_back("--data " + source.data);
  if (!source.distribution.empty()) given.push_back("--distribution " + source.distribution);
  if (given.size() > 1)
    invalid_input("{} and {} are two sources of one step; give one of them", given[0], given[1]);
  if (given.empty() && config.data.datasets().empty())
    invalid_input(
        "{}no sequences to plan; give --lengths FILE, --data PREFIX or --distribution KIND:A,B, or "
        "set data.prefix or data.sources",
        config_file.empty() ? "" : fmt::format("{}: ", config_file));
}

StepSamples whole_list(const StepSource& source, const DataConfig& data) {
  const std::vector<Tokens> documents = read_lengths(source.lengths);
  const SequenceRule rule = configured_sequences(data);
  require_sequences(documents, rule, stream_name(source.lengths));
  StepSamples samples{{sequence_lengths(documents, rule)},
                      stream_name(source.lengths),
                      long_documents_text(documents, rule),
                      false};
  if (samples.mean_tokens() > data.step_tokens + data.context)
    samples.source +=
        fmt::format(", all of it ({} tokens); --steps 1 draws a step of {}",
                    grouped(samples.mean_tokens().count()), grouped(data.step_tokens.count()));
  return samples;
}

StepSamples imagined_samples(const StepSource& source, const DataConfig& data, std::int64_t steps) {
  const auto kind = parse_length_distribution(source.distribution, "--distribution");
  ImaginedSteps imagined = imagined_steps(kind, data, steps);
  return {std::move(imagined.steps), source.distribution,
          long_documents_text(imagined.documents, configured_sequences(data))};
}

/// Steps of one list or dataset that `name` describes.
StepSamples samples_of_one(std::vector<Tokens> documents, const std::string& name,
                           const DataConfig& data, std::int64_t steps) {
  const std::string text = long_documents_text(documents, configured_sequences(data));
  return {drawn_steps(mixture_of_one(std::move(documents), name), data, steps), name, text};
}

/// Steps of the run file's datasets.
StepSamples configured_samples(const DataConfig& data, std::int64_t steps) {
  const std::vector<DataSource> sources = data.datasets();
  if (sources.size() == 1) {
    const std::string prefix = sources.front().prefix.string();
    return samples_of_one(IndexedDataset::open(prefix).lengths(), prefix, data, steps);
  }
  std::vector<std::vector<Tokens>> lengths;
  for (const DataSource& one : sources)
    lengths.push_back(IndexedDataset::open(one.prefix).lengths());
  Mixture mixture = configured_mixture(data, std::move(lengths));
  std::string text = fmt::format("{}", fmt::join(data_texts(data, mixture), "; "));
  return {drawn_steps(std::move(mixture), data, steps),
          fmt::format("a mixture of {} datasets", sources.size()), std::move(text)};
}

/// REQUIRES: a source.
StepSamples drawn_samples(const StepSource& source, const DataConfig& data, std::int64_t steps) {
  StepSamples samples;
  if (!source.distribution.empty())
    samples = imagined_samples(source, data, steps);
  else if (!source.lengths.empty())
    samples =
        samples_of_one(read_lengths(source.lengths), stream_name(source.lengths), data, steps);
  else if (!source.data.empty())
    samples = samples_of_one(IndexedDataset::open(source.data).lengths(), source.data, data, steps);
  else
    samples = configured_samples(data, steps);
  samples.source += steps == 1 ? fmt::format(", first step of seed {}", data.seed)
                               : fmt::format(", first {} steps of seed {}", steps, data.seed);
  return samples;
}

}  // namespace

Tokens StepSamples::mean_tokens() const {
  Tokens sum;
  for (const SequenceLengths& step : steps) sum += total_tokens(step);
  return sum / std::ssize(steps);
}

void count_targets(DataConfig& data, const StepSource& source) {
  if (data.target_share > 0 || !source.lengths.empty() || !source.distribution.empty()) return;
  std::vector<std::filesystem::path> prefixes;
  if (!source.data.empty())
    prefixes.emplace_back(source.data);
  else
    for (const DataSource& one : data.datasets()) prefixes.push_back(one.prefix);
  std::int64_t targets = 0, all = 0;
  for (const std::filesystem::path& prefix : prefixes) {
    const TargetStatistics found = target_statistics(Documents::open(prefix));
    targets += found.targets;
    all += found.behind_others;
  }
  if (targets < all) data.target_share = static_cast<double>(targets) / static_cast<double>(all);
}

std::string step_rule(std::string_view usual) {
  return fmt::format(
      "Steps: a list of --lengths is one step as a whole. With --steps, or with data.step_tokens "
      "on the command line, steps of data.step_tokens are drawn from it as training draws them. "
      "From a dataset (--data, else data.prefix or data.sources of the run configuration) and from "
      "--distribution steps are always drawn, {} unless --steps says otherwise.",
      usual);
}

CLI::Option* add_step_source(CLI::App& command, StepSource& source) {
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
  return command
      .add_option("--steps", source.steps,
                  "Draw so many steps of data.step_tokens, also from a list of --lengths")
      ->type_name("N");
}

StepSamples step_samples(const StepSource& source, const RunConfig& config,
                         std::string_view config_file, std::int64_t usual) {
  require_one_source(source, config, config_file);
  const bool whole = !source.lengths.empty() && !source.steps && !config.data.step_tokens_asked;
  StepSamples samples = whole ? whole_list(source, config.data)
                              : drawn_samples(source, config.data, source.steps.value_or(usual));
  if (const double share = config.data.target_share; share > 0 && share < 1)
    samples.long_documents += fmt::format("; {} of the tokens are targets", human_share(share));
  return samples;
}

}  // namespace slimpack
