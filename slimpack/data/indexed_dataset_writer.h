// Writes Megatron's indexed datasets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "slimpack/base/file.h"
#include "slimpack/base/units.h"
#include "slimpack/data/indexed_dataset.h"

namespace slimpack {

/// Writes PREFIX.bin and PREFIX.idx document by document; each document is one sequence. commit()
/// gives the files their names and replaces an existing dataset. A writer that is destroyed before
/// commit() leaves nothing behind. Throws as AtomicFile. Memory: 4 bytes per document, and 12 more
/// while commit() runs.
class IndexedDatasetWriter {
 public:
  /// Tokens are stored as uint16 when vocab_size < 65,500, as Megatron does, else as int32.
  /// REQUIRES: vocab_size >= 1.
  IndexedDatasetWriter(const std::filesystem::path& prefix, std::int64_t vocab_size);

  /// REQUIRES: every token is in [0, vocab_size). Throws InvalidInput for 2^31 or more tokens,
  /// because the format cannot hold such a document.
  void append(std::span<const std::int32_t> document);

  /// REQUIRES: called once, and no append() after it.
  void commit();

  [[nodiscard]] std::size_t documents() const { return lengths_.size(); }
  [[nodiscard]] Tokens tokens() const { return tokens_; }

 private:
  template <class Stored>
  void store(std::span<const std::int32_t> document);
  void flush();

  std::int64_t vocab_size_;
  TokenDtype dtype_;
  AtomicFile bin_;
  AtomicFile idx_;
  std::vector<std::byte> buffer_;
  std::vector<std::int32_t> lengths_;
  Tokens tokens_;
};

}  // namespace slimpack
