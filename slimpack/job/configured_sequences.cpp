#include "slimpack/job/configured_sequences.h"

#include <fmt/ranges.h>

#include <numeric>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/human.h"
#include "slimpack/base/random.h"

namespace slimpack {
namespace {

void require_steps(std::int64_t steps) {
  if (steps < 1 || steps > kMostDrawnSteps)
    invalid_input("--steps is {}, must be 1 to {}", steps, kMostDrawnSteps);
}

Sampler sampler_of(Mixture mixture, const DataConfig& data) {
  return {std::move(mixture), {configured_sequences(data), data.step_tokens}, {.seed = data.seed}};
}

/// Says what each source gives to the mixture.
std::string mixture_text(const DataConfig& data, const Mixture& mixture) {
  double weights = 0;
  for (const double weight : mixture.weights) weights += weight;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < mixture.sources.size(); ++i) {
    const std::string share = mixture.weights.empty() ? fmt::format("{} epochs", mixture.epochs[i])
                                                      : human_share(mixture.weights[i] / weights);
    parts.push_back(fmt::format(
        "{} of '{}' ({})", share, data.sources[i].prefix.string(),
        counted(static_cast<std::int64_t>(mixture.sources[i].lengths.size()), "document")));
  }
  return fmt::format("a mixture: {}", fmt::join(parts, ", "));
}

}  // namespace

SequenceRule configured_sequences(const DataConfig& data) {
  return {data.context, data.long_documents};
}

Mixture configured_mixture(const DataConfig& data, std::vector<std::vector<Tokens>> lengths) {
  Mixture mixture;
  for (const DataSource& source : data.datasets()) {
    std::vector<Tokens>& documents = lengths[mixture.sources.size()];
    mixture.sources.push_back(
        {fmt::format("dataset '{}'", source.prefix.string()), std::move(documents)});
    if (source.weight)
      mixture.weights.push_back(*source.weight);
    else
      mixture.epochs.push_back(source.epochs);
  }
  return mixture;
}

std::vector<SequenceLengths> drawn_steps(Mixture mixture, const DataConfig& data,
                                         std::int64_t steps) {
  require_steps(steps);
  Sampler sampler = sampler_of(std::move(mixture), data);
  std::vector<SequenceLengths> drawn;
  while (std::ssize(drawn) < steps) drawn.push_back(lengths_of(sampler.next_step()));
  return drawn;
}

ImaginedSteps imagined_steps(const LengthDistribution& distribution, const DataConfig& data,
                             std::int64_t steps) {
  require_steps(steps);
  Rng rng(data.seed);
  ImaginedSteps imagined;
  while (std::ssize(imagined.steps) < steps) {
    // A step has at most so many tokens.
    const std::vector<Tokens> documents =
        drawn_documents(distribution, rng, data.step_tokens + data.context);
    Sampler sampler = sampler_of(mixture_of_one(documents), data);
    imagined.steps.push_back(lengths_of(sampler.next_step()));
    imagined.documents.insert(imagined.documents.end(), documents.begin(), documents.end());
  }
  return imagined;
}

std::string long_documents_text(std::span<const Tokens> documents, const SequenceRule& rule) {
  const LongDocuments found = long_documents(documents, rule);
  if (found.documents == 0)
    return fmt::format("no document is longer than the context of {}",
                       grouped(rule.context.count()));
  const std::string longer =
      fmt::format("{} of {} longer than the context", grouped(found.documents),
                  counted(static_cast<std::int64_t>(documents.size()), "document"));
  if (rule.long_documents == LongDocumentsKind::kSplit)
    return fmt::format("{}, split into {}: no token is dropped", longer,
                       counted(found.sequences, "sequence"));
  const Tokens all = std::accumulate(documents.begin(), documents.end(), Tokens(0));
  const auto dropped = static_cast<double>(found.dropped.count());
  return fmt::format("{}, {}: {} tokens dropped, {}", longer,
                     rule.long_documents == LongDocumentsKind::kTruncate ? "truncated" : "left out",
                     human_count(dropped), human_share(dropped / static_cast<double>(all.count())));
}

std::vector<std::string> data_texts(const DataConfig& data, const Mixture& mixture) {
  std::vector<Tokens> documents;
  for (const MixtureSource& source : mixture.sources)
    documents.insert(documents.end(), source.lengths.begin(), source.lengths.end());
  std::vector<std::string> texts;
  if (mixture.sources.size() > 1) texts.push_back(mixture_text(data, mixture));
  texts.push_back(long_documents_text(documents, configured_sequences(data)));
  return texts;
}

}  // namespace slimpack
