// The documents of a dataset as training takes them: tokens, and which of them are targets. Every
// token behind another one is, unless a mask beside the dataset says which: PREFIX.mask.bin and
// PREFIX.mask.idx, an indexed dataset of the same documents, with a byte for each token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "slimpack/data/indexed_dataset.h"
#include "slimpack/data/sequences.h"
#include "slimpack/data/token_range.h"

namespace slimpack {

/// PREFIX.mask.
[[nodiscard]] std::filesystem::path mask_prefix(const std::filesystem::path& prefix);

/// Thread-safe after open().
class Documents {
 public:
  /// Opens the mask, too, where there is a file of one. Throws InvalidInput as
  /// IndexedDataset::open, also for a mask that has not one byte for each token of each document.
  [[nodiscard]] static Documents open(const std::filesystem::path& prefix);

  [[nodiscard]] const std::filesystem::path& prefix() const { return prefix_; }
  [[nodiscard]] const IndexedDataset& dataset() const { return dataset_; }
  /// 1 = the loss counts the token, 0 = not; null = there is no mask. Other bytes are refused where
  /// they are read.
  [[nodiscard]] const IndexedDataset* mask() const { return mask_ ? &*mask_ : nullptr; }
  /// Throws InvalidInput as targets() if the mask, which has this range, has another byte.
  void require_mask_bytes(const TokenRange& range) const;

  /// Targets of a token range of a document that trains as one sequence. Throws InvalidInput naming
  /// mask, document, position and byte if the byte is neither 0 nor 1. REQUIRES: a range of the
  /// document.
  [[nodiscard]] TargetMask targets(const DocumentSequence& sequence) const;

  /// The range's tokens with their targets. Throws InvalidInput as
  /// IndexedDataset::tokens, too. REQUIRES as targets().
  [[nodiscard]] SequenceTokens read(const DocumentSequence& sequence) const;

 private:
  explicit Documents(const std::filesystem::path& prefix);

  void check_mask() const;
  void require_mask_byte(const TokenPlace& place) const;

  std::filesystem::path prefix_;
  IndexedDataset dataset_;
  std::optional<IndexedDataset> mask_;
};

/// Targets of documents that train as a whole.
struct TargetStatistics {
  std::int64_t targets = 0;
  std::int64_t behind_others = 0;      ///< tokens behind another one: the targets without a mask
  std::int64_t documents_without = 0;  ///< documents without a target
  std::optional<std::size_t> first_without{};  ///< the first of them
};

/// Reads the whole mask, where there is one. Throws InvalidInput as Documents::targets.
[[nodiscard]] TargetStatistics target_statistics(const Documents& documents);

}  // namespace slimpack
