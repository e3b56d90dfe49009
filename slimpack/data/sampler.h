// The order in which sequences train. It is shuffled anew each epoch and can be resumed at any
// step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/data/sequences.h"

namespace slimpack {

class JsonFields;

/// Where the sampler stands. With the same dataset and options, the same cursor continues with the
/// same sequences on every machine.
struct SamplerCursor {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t position = 0;  ///< sequences already drawn in this epoch

  bool operator==(const SamplerCursor&) const = default;
};

[[nodiscard]] nlohmann::json to_json(const SamplerCursor& cursor);
/// Throws InvalidInput naming a field that is missing, mistyped or out of range.
[[nodiscard]] SamplerCursor sampler_cursor_from_json(const JsonFields& fields);

struct SamplerOptions {
  SequenceRule sequences;     ///< how documents become sequences
  Tokens step_tokens{32768};  ///< a step ends with the sequence that reaches or passes this
};

/// Draws whole sequences without replacement. Each sequence comes once per epoch; the sequences of
/// one document come at unrelated moments. The step at an epoch's end is filled from the next
/// epoch.
class Sampler {
 public:
  /// `lengths`: of all documents, as IndexedDataset::lengths() returns them. Throws InvalidInput if
  /// all documents are empty, an option is not positive, or the cursor does not fit the dataset.
  /// Memory: 4 bytes per sequence and per document besides the lengths.
  Sampler(std::vector<Tokens> lengths, SamplerOptions options, SamplerCursor cursor);

  /// The sequences of the next step, at least one. O(sequences) if a new epoch begins.
  [[nodiscard]] std::vector<DocumentSequence> next_step();

  /// Save this to continue after the step drawn last.
  [[nodiscard]] const SamplerCursor& cursor() const { return cursor_; }

 private:
  void number_sequences();
  void shuffle_epoch();
  [[nodiscard]] DocumentSequence sequence(std::uint32_t number) const;

  std::vector<Tokens> lengths_;
  SamplerOptions options_;
  SamplerCursor cursor_;
  /// The number of each document's first sequence; and at the end, the number of all sequences.
  std::vector<std::uint32_t> first_sequence_;
  std::vector<std::uint32_t> order_;  ///< sequence numbers of the current epoch
};

}  // namespace slimpack
