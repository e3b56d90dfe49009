#include "slimpack/data/sampler.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/random.h"

namespace slimpack {

namespace {

/// Beyond what anybody trains, and far below where counting on would overflow.
constexpr std::int64_t kMaxEpoch = std::int64_t{1} << 53;

}  // namespace

nlohmann::json to_json(const SamplerCursor& cursor) {
  return {{"seed", cursor.seed}, {"epoch", cursor.epoch}, {"position", cursor.position}};
}

SamplerCursor sampler_cursor_from_json(const JsonFields& fields) {
  SamplerCursor cursor;
  // Seeds use all 64 bits; JsonFields::integer ends at 2^63 − 1.
  const nlohmann::json& seed = fields.at("seed");
  cursor.seed = seed.is_number_unsigned() ? seed.get<std::uint64_t>()
                                          : static_cast<std::uint64_t>(fields.integer("seed", 0));
  cursor.epoch = fields.integer("epoch", 0, kMaxEpoch);
  cursor.position = fields.integer("position", 0);
  return cursor;
}

Sampler::Sampler(std::vector<Tokens> lengths, SamplerOptions options, SamplerCursor cursor)
    : lengths_(std::move(lengths)), options_(options), cursor_(cursor) {
  if (options_.context < Tokens(1))
    invalid_input("context is {} tokens, must be at least 1", options_.context.count());
  if (options_.step_tokens < Tokens(1))
    invalid_input("step_tokens is {}, must be at least 1", options_.step_tokens.count());
  if (lengths_.size() > std::numeric_limits<std::uint32_t>::max())
    invalid_input("the dataset has {} documents, at most 4294967295 are sampled; divide it",
                  lengths_.size());
  for (const Tokens length : lengths_) {
    if (length <= options_.context) continue;
    ++truncation_.documents;
    truncation_.tokens += length - options_.context;
  }
  shuffle_epoch();
  const auto drawable = static_cast<std::int64_t>(order_.size());
  if (drawable == 0)
    invalid_input("the dataset has {} documents and none with a token; build it from other files",
                  lengths_.size());
  if (cursor_.epoch < 0 || cursor_.position < 0 || cursor_.position > drawable)
    invalid_input(
        "data cursor (epoch {}, position {}) does not fit a dataset of {} non-empty "
        "documents; resume with the dataset that the run began with",
        cursor_.epoch, cursor_.position, drawable);
}

void Sampler::shuffle_epoch() {
  order_.clear();
  for (std::size_t d = 0; d < lengths_.size(); ++d)
    if (lengths_[d] > Tokens(0)) order_.push_back(static_cast<std::uint32_t>(d));
  // Mixed twice: neighbouring seeds and neighbouring epochs give unrelated streams.
  const std::uint64_t mixed = Rng(cursor_.seed).next() + static_cast<std::uint64_t>(cursor_.epoch);
  Rng(Rng(mixed).next()).shuffle(std::span(order_));
}

std::vector<SampledDocument> Sampler::next_step() {
  std::vector<SampledDocument> step;
  for (Tokens drawn; drawn < options_.step_tokens; drawn += step.back().length) {
    if (cursor_.position == static_cast<std::int64_t>(order_.size())) {
      ++cursor_.epoch;
      cursor_.position = 0;
      shuffle_epoch();
    }
    const std::size_t document = order_[static_cast<std::size_t>(cursor_.position++)];
    step.push_back({document, std::min(lengths_[document], options_.context)});
  }
  return step;
}

}  // namespace slimpack
