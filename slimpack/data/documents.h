// The documents of a dataset as training takes them: tokens, and which of them are targets.
#pragma once

#include <filesystem>
#include <utility>

#include "slimpack/data/indexed_dataset.h"
#include "slimpack/data/sequence_tokens.h"
#include "slimpack/data/sequences.h"

namespace slimpack {

/// Thread-safe after open().
class Documents {
 public:
  /// Throws InvalidInput as IndexedDataset::open.
  [[nodiscard]] static Documents open(const std::filesystem::path& prefix);

  [[nodiscard]] const IndexedDataset& dataset() const { return dataset_; }

  /// Targets of a token range of a document that trains as one sequence. REQUIRES: a range of the
  /// document.
  [[nodiscard]] TargetMask targets(const DocumentSequence& sequence) const;

  /// The range's tokens with their targets. REQUIRES as targets(). Throws InvalidInput as
  /// IndexedDataset::tokens.
  [[nodiscard]] SequenceTokens read(const DocumentSequence& sequence) const;

 private:
  explicit Documents(IndexedDataset dataset) : dataset_(std::move(dataset)) {}

  IndexedDataset dataset_;
};

}  // namespace slimpack
