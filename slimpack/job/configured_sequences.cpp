#include "slimpack/job/configured_sequences.h"

#include <fmt/format.h>

#include <numeric>

#include "slimpack/base/error.h"
#include "slimpack/base/human.h"
#include "slimpack/base/random.h"
#include "slimpack/data/sampler.h"

namespace slimpack {
namespace {

void require_steps(std::int64_t steps) {
  if (steps < 1 || steps > kMostDrawnSteps)
    invalid_input("--steps is {}, must be 1 to {}", steps, kMostDrawnSteps);
}

SequenceLengths next_step(Sampler& sampler) {
  SequenceLengths step;
  for (const DocumentSequence& sequence : sampler.next_step()) step.push_back(sequence.length);
  return step;
}

Sampler sampler_of(const std::vector<Tokens>& documents, const DataConfig& data) {
  return {documents, {configured_sequences(data), data.step_tokens}, {data.seed, 0, 0}};
}

}  // namespace

SequenceRule configured_sequences(const DataConfig& data) {
  return {data.context, data.long_documents == LongDocumentsKind::kSplit};
}

std::vector<SequenceLengths> drawn_steps(const std::vector<Tokens>& documents,
                                         const DataConfig& data, std::int64_t steps) {
  require_steps(steps);
  Sampler sampler = sampler_of(documents, data);
  std::vector<SequenceLengths> drawn;
  while (std::ssize(drawn) < steps) drawn.push_back(next_step(sampler));
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
    Sampler sampler = sampler_of(documents, data);
    imagined.steps.push_back(next_step(sampler));
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
  if (rule.split)
    return fmt::format("{}, split into {}: no token is dropped", longer,
                       counted(found.sequences, "sequence"));
  const Tokens all = std::accumulate(documents.begin(), documents.end(), Tokens(0));
  const auto dropped = static_cast<double>(found.dropped.count());
  return fmt::format("{}, truncated: {} tokens dropped, {}", longer, human_count(dropped),
                     human_share(dropped / static_cast<double>(all.count())));
}

}  // namespace slimpack
