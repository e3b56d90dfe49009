#include "slimpack/data/source_order.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/random.h"

namespace slimpack {

SourceOrder::SourceOrder(std::vector<Tokens> lengths, const SequenceRule& rule, std::uint64_t seed,
                         SourcePlace place, std::string_view name)
    : lengths_(std::move(lengths)), rule_(rule), seed_(seed), place_(place) {
  number_sequences(name);
  shuffle_epoch();
  require_sequences(lengths_, rule_, name);
  if (place_.epoch < 0 || place_.position < 0 || place_.position > sequences())
    invalid_input(
        "data cursor (epoch {}, position {}) does not fit {} of {} sequences; resume with the "
        "dataset that the run began with",
        place_.epoch, place_.position, name, sequences());
  for (std::size_t d = 0; d < lengths_.size(); ++d)
    for (std::int64_t k = 0; k < sequence_count(lengths_[d], rule_); ++k)
      tokens_ += sequence_of(d, lengths_[d], k, rule_).length;
  for (std::int64_t i = 0; i < place_.position; ++i)
    drawn_in_epoch_ += sequence(order_[static_cast<std::size_t>(i)]).length;
}

void SourceOrder::number_sequences(std::string_view name) {
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  std::int64_t sequences = 0;
  first_sequence_.reserve(lengths_.size() + 1);
  for (const Tokens length : lengths_) {
    first_sequence_.push_back(static_cast<std::uint32_t>(sequences));
    sequences += sequence_count(length, rule_);
    if (sequences > kMost)
      invalid_input(
          "{} has {} documents, more than {} sequences at a context of {}; raise the context or "
          "divide the dataset",
          name, lengths_.size(), kMost, rule_.context.count());
  }
  first_sequence_.push_back(static_cast<std::uint32_t>(sequences));
}

void SourceOrder::shuffle_epoch() {
  order_.resize(first_sequence_.back());
  std::iota(order_.begin(), order_.end(), 0U);
  // Mixed twice: neighbouring seeds and neighbouring epochs give unrelated streams.
  const std::uint64_t mixed = Rng(seed_).next() + static_cast<std::uint64_t>(place_.epoch);
  Rng(Rng(mixed).next()).shuffle(std::span(order_));
}

DocumentSequence SourceOrder::sequence(std::uint32_t number) const {
  // A document without sequences has the same first number as the next document. The last document
  // with a first number of at most `number` has the sequence.
  const auto after = std::ranges::upper_bound(first_sequence_, number);
  const auto document = static_cast<std::size_t>(after - first_sequence_.begin()) - 1;
  return sequence_of(document, lengths_[document], number - first_sequence_[document], rule_);
}

DocumentSequence SourceOrder::next() {
  if (place_.position == sequences()) {
    ++place_.epoch;
    place_.position = 0;
    drawn_in_epoch_ = Tokens(0);
    shuffle_epoch();
  }
  const DocumentSequence next = sequence(order_[static_cast<std::size_t>(place_.position++)]);
  drawn_in_epoch_ += next.length;
  return next;
}

}  // namespace slimpack
