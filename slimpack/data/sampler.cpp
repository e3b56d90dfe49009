#include "slimpack/data/sampler.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/base/random.h"

namespace slimpack {

namespace {

/// More epochs than anybody trains, and far below any overflow.
constexpr std::int64_t kMaxEpoch = std::int64_t{1} << 53;

}  // namespace

nlohmann::json to_json(const SamplerCursor& cursor) {
  return {{"seed", cursor.seed}, {"epoch", cursor.epoch}, {"position", cursor.position}};
}

SamplerCursor sampler_cursor_from_json(const JsonFields& fields) {
  SamplerCursor cursor;
  // Seeds use all 64 bits, but JsonFields::integer only reads up to 2^63 − 1.
  const nlohmann::json& seed = fields.at("seed");
  cursor.seed = seed.is_number_unsigned() ? seed.get<std::uint64_t>()
                                          : static_cast<std::uint64_t>(fields.integer("seed", 0));
  cursor.epoch = fields.integer("epoch", 0, kMaxEpoch);
  cursor.position = fields.integer("position", 0);
  return cursor;
}

Sampler::Sampler(std::vector<Tokens> lengths, SamplerOptions options, SamplerCursor cursor)
    : lengths_(std::move(lengths)), options_(options), cursor_(cursor) {
  if (options_.sequences.context < Tokens(1))
    invalid_input("context is {} tokens, must be at least 1", options_.sequences.context.count());
  if (options_.step_tokens < Tokens(1))
    invalid_input("step_tokens is {}, must be at least 1", options_.step_tokens.count());
  number_sequences();
  shuffle_epoch();
  const auto drawable = static_cast<std::int64_t>(order_.size());
  if (drawable == 0)
    invalid_input("the dataset has {} documents and none with a token; build it from other files",
                  lengths_.size());
  if (cursor_.epoch < 0 || cursor_.position < 0 || cursor_.position > drawable)
    invalid_input(
        "data cursor (epoch {}, position {}) does not fit a dataset of {} sequences; resume with "
        "the dataset that the run began with",
        cursor_.epoch, cursor_.position, drawable);
}

void Sampler::number_sequences() {
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  std::int64_t sequences = 0;
  first_sequence_.reserve(lengths_.size() + 1);
  for (const Tokens length : lengths_) {
    first_sequence_.push_back(static_cast<std::uint32_t>(sequences));
    sequences += sequence_count(length, options_.sequences);
    if (sequences > kMost)
      invalid_input(
          "the dataset has {} documents, more than {} sequences at a context of {}; raise the "
          "context or divide the dataset",
          lengths_.size(), kMost, options_.sequences.context.count());
  }
  first_sequence_.push_back(static_cast<std::uint32_t>(sequences));
}

void Sampler::shuffle_epoch() {
  order_.resize(first_sequence_.back());
  std::iota(order_.begin(), order_.end(), 0U);
  // Mixed twice: neighbouring seeds and neighbouring epochs give unrelated streams.
  const std::uint64_t mixed = Rng(cursor_.seed).next() + static_cast<std::uint64_t>(cursor_.epoch);
  Rng(Rng(mixed).next()).shuffle(std::span(order_));
}

DocumentSequence Sampler::sequence(std::uint32_t number) const {
  // A document without sequences has the same first number as the next document. The last document
  // with a first number of at most `number` has the sequence.
  const auto after = std::ranges::upper_bound(first_sequence_, number);
  const auto document = static_cast<std::size_t>(after - first_sequence_.begin()) - 1;
  return sequence_of(document, lengths_[document], number - first_sequence_[document],
                     options_.sequences);
}

std::vector<DocumentSequence> Sampler::next_step() {
  std::vector<DocumentSequence> step;
  for (Tokens drawn; drawn < options_.step_tokens; drawn += step.back().length) {
    if (cursor_.position == static_cast<std::int64_t>(order_.size())) {
      ++cursor_.epoch;
      cursor_.position = 0;
      shuffle_epoch();
    }
    step.push_back(sequence(order_[static_cast<std::size_t>(cursor_.position++)]));
  }
  return step;
}

}  // namespace slimpack
