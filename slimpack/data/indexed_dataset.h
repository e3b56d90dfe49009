// Reads Megatron's indexed datasets. PREFIX.bin holds the tokens. PREFIX.idx says where each
// sequence begins and which sequences form a document. indexed_format.h has the layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/base/file.h"
#include "slimpack/base/units.h"

namespace slimpack {

/// Dtype codes of the .idx header.
enum class TokenDtype : std::uint8_t {
  kUint8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUint16 = 8,
};
[[nodiscard]] std::size_t bytes_per_token(TokenDtype dtype);

struct TokenExtremes {
  std::int64_t smallest = 0;
  std::int64_t largest = 0;
};

/// PREFIX.bin and PREFIX.idx.
[[nodiscard]] std::filesystem::path bin_path(const std::filesystem::path& prefix);
[[nodiscard]] std::filesystem::path idx_path(const std::filesystem::path& prefix);

/// Both files are memory-mapped; thread-safe after open().
class IndexedDataset {
 public:
  /// Maps both files and checks every field of the index; O(sequences). Throws InvalidInput naming
  /// the file, the field and its value when they are missing, damaged, or hold no integer tokens,
  /// or when the .bin is longer or shorter than the index says. Nothing in the format tells two
  /// .bin files of one size apart.
  [[nodiscard]] static IndexedDataset open(const std::filesystem::path& prefix);

  [[nodiscard]] std::size_t documents() const { return documents_; }
  [[nodiscard]] TokenDtype dtype() const { return dtype_; }

  /// Tokens of a document, over all its sequences; may be 0. O(its sequences).
  /// REQUIRES: document < documents().
  [[nodiscard]] Tokens length(std::size_t document) const;

  /// The length of every document, in order.
  [[nodiscard]] std::vector<Tokens> lengths() const;

  /// The document's first `count` tokens. REQUIRES: document < documents(), count <= its length.
  /// Throws InvalidInput naming document and position for a token that is negative or does not fit
  /// into 32 bits.
  [[nodiscard]] std::vector<std::int32_t> tokens(std::size_t document, Tokens count) const;

  /// Copies out.size() tokens of the document from `begin` on. REQUIRES and throws as tokens().
  void copy_tokens(std::size_t document, Tokens begin, std::span<std::int64_t> out) const;

  /// The document's smallest and largest stored token, which may be negative; none for an empty
  /// document. Runs at the speed of memory.
  [[nodiscard]] std::optional<TokenExtremes> extremes(std::size_t document) const;
  /// The position of the first such token. REQUIRES: the document has one.
  [[nodiscard]] std::int64_t position_of(std::size_t document, std::int64_t token) const;

  /// The checksum of the whole .idx.
  [[nodiscard]] std::string index_checksum() const;

 private:
  IndexedDataset(MappedFile bin, MappedFile idx) : bin_(std::move(bin)), idx_(std::move(idx)) {}

  void check_header();
  void check_sequences() const;
  void check_documents() const;
  [[nodiscard]] std::int64_t sequence_length(std::size_t sequence) const;
  [[nodiscard]] std::int64_t sequence_offset(std::size_t sequence) const;
  [[nodiscard]] std::int64_t first_sequence(std::size_t document) const;
  /// Calls `work` with a value of the stored type.
  template <class Work>
  void as_stored(const Work& work) const;
  /// Calls `work` with each of the document's sequences, in order.
  template <class Work>
  void each_sequence(std::size_t document, const Work& work) const;
  template <class Out>
  void copy(std::size_t document, std::size_t begin, std::span<Out> out) const;
  template <class Stored, class Out>
  void convert(std::size_t document, std::size_t position, std::size_t offset,
               std::span<Out> out) const;

  MappedFile bin_;
  MappedFile idx_;
  std::string name_;  ///< path of the .idx, for messages
  TokenDtype dtype_ = TokenDtype::kInt32;
  std::size_t sequences_ = 0;
  std::size_t documents_ = 0;
};

}  // namespace slimpack
