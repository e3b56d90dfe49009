// The sequences of one dataset in shuffled order, epoch after epoch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/data/sequences.h"

namespace slimpack {

/// How far a dataset has been drawn.
struct SourcePlace {
  std::int64_t epoch = 0;
  std::int64_t position = 0;  ///< sequences already drawn in this epoch

  bool operator==(const SourcePlace&) const = default;
};

/// Each sequence comes once per epoch; the sequences of one document come at unrelated moments.
class SourceOrder {
 public:
  /// `lengths`: of all documents. `name`: of the dataset, for messages. Throws InvalidInput if no
  /// document has a sequence, if there are too many, or if the place does not fit the dataset.
  /// Memory: 4 bytes per sequence and per document besides the lengths.
  SourceOrder(std::vector<Tokens> lengths, const SequenceRule& rule, std::uint64_t seed,
              SourcePlace place, std::string_view name);

  /// O(sequences) if a new epoch begins.
  [[nodiscard]] DocumentSequence next();

  [[nodiscard]] const SourcePlace& place() const { return place_; }
  /// The sequences and tokens of an epoch.
  [[nodiscard]] std::int64_t sequences() const { return std::ssize(order_); }
  [[nodiscard]] Tokens tokens() const { return tokens_; }
  /// All that were drawn since the first epoch. The tokens are exact up to 2^53.
  [[nodiscard]] std::int64_t drawn_sequences() const {
    return place_.epoch * sequences() + place_.position;
  }
  [[nodiscard]] double drawn_tokens() const {
    return static_cast<double>(place_.epoch) * static_cast<double>(tokens_.count()) +
           static_cast<double>(drawn_in_epoch_.count());
  }

 private:
  void number_sequences(std::string_view name);
  void shuffle_epoch();
  [[nodiscard]] DocumentSequence sequence(std::uint32_t number) const;

  std::vector<Tokens> lengths_;
  SequenceRule rule_;
  std::uint64_t seed_;
  SourcePlace place_;
  /// The number of each document's first sequence; and at the end, the number of all sequences.
  std::vector<std::uint32_t> first_sequence_;
  std::vector<std::uint32_t> order_;  ///< sequence numbers of the current epoch
  Tokens tokens_;
  Tokens drawn_in_epoch_;
};

}  // namespace slimpack
