// How a run makes steps of documents, also of those that are longer than its context.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/data/length_distribution.h"
#include "slimpack/data/sampler.h"
#include "slimpack/data/sequences.h"
#include "slimpack/plan/slice.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

[[nodiscard]] SequenceRule configured_sequences(const DataConfig& data);

/// The mixture of data.datasets(), whose documents have these lengths. REQUIRES: lengths of each.
[[nodiscard]] Mixture configured_mixture(const DataConfig& data,
                                         std::vector<std::vector<Tokens>> lengths);
/// Lines for people: what each source gives to the mixture, unless there is one source alone, and
/// long_documents_text of all documents.
[[nodiscard]] std::vector<std::string> data_texts(const DataConfig& data, const Mixture& mixture);

/// The most steps that are drawn at once.
inline constexpr std::int64_t kMostDrawnSteps = 10'000;

/// The first `steps` steps of data.step_tokens that training would draw from the mixture. The first
/// of them are the same for any number of steps. Throws InvalidInput for less than one step or more
/// than kMostDrawnSteps, and as Sampler.
[[nodiscard]] std::vector<SequenceLengths> drawn_steps(Mixture mixture, const DataConfig& data,
                                                       std::int64_t steps);

/// Documents that are yet to be collected, and steps of them.
struct ImaginedSteps {
  std::vector<Tokens> documents;
  std::vector<SequenceLengths> steps;
};

/// Draws other documents from the distribution for each step.
[[nodiscard]] ImaginedSteps imagined_steps(const LengthDistribution& distribution,
                                           const DataConfig& data, std::int64_t steps);

/// One line for people: how many of these documents are longer than the context, and whether their
/// tokens are split or dropped.
[[nodiscard]] std::string long_documents_text(std::span<const Tokens> documents,
                                              const SequenceRule& rule);

}  // namespace slimpack
