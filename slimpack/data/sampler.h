// The order in which documents are trained on: shuffled anew each epoch, resumable at any step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "slimpack/base/json_fields.h"
#include "slimpack/base/units.h"

namespace slimpack {

/// Where the sampler stands. With the same dataset and options, the same cursor continues with the
/// same documents on every machine.
struct SamplerCursor {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t position = 0;  ///< non-empty documents already drawn in this epoch

  bool operator==(const SamplerCursor&) const = default;
};

[[nodiscard]] nlohmann::json to_json(const SamplerCursor& cursor);
/// Throws InvalidInput naming a field that is missing, mistyped or out of range.
[[nodiscard]] SamplerCursor sampler_cursor_from_json(const JsonFields& fields);

struct SamplerOptions {
  Tokens context{4096};       ///< at most this many tokens of a document are drawn
  Tokens step_tokens{32768};  ///< a step ends with the document that reaches or passes this
};

/// The first `length` tokens of a document.
struct SampledDocument {
  std::size_t document = 0;  ///< index in the dataset
  Tokens length;

  bool operator==(const SampledDocument&) const = default;
};

/// What the context leaves out of every epoch: the tails of longer documents.
struct Truncation {
  std::int64_t documents = 0;
  Tokens tokens;

  bool operator==(const Truncation&) const = default;
};

/// Draws whole documents without replacement; every non-empty document comes once per epoch. A
/// step that an epoch's end cuts short is filled from the next epoch.
class Sampler {
 public:
  /// `lengths` of all documents, as IndexedDataset::lengths() gives them. Throws InvalidInput when
  /// all are empty, an option is not positive, or the cursor does not belong to such a dataset.
  /// Memory: 4 bytes per document beside the lengths.
  Sampler(std::vector<Tokens> lengths, SamplerOptions options, SamplerCursor cursor);

  /// The documents of the next step, never none. O(documents) when a new epoch begins.
  [[nodiscard]] std::vector<SampledDocument> next_step();

  /// Save this to continue after the step drawn last.
  [[nodiscard]] const SamplerCursor& cursor() const { return cursor_; }

  /// The same for every epoch; known before the first step.
  [[nodiscard]] const Truncation& truncation_per_epoch() const { return truncation_; }

 private:
  void shuffle_epoch();

  std::vector<Tokens> lengths_;
  SamplerOptions options_;
  SamplerCursor cursor_;
  Truncation truncation_;
  std::vector<std::uint32_t> order_;  ///< of the current epoch
};

}  // namespace slimpack
