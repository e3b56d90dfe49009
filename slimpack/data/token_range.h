// The range of a dataset's tokens: whether a model knows all of them. Reading every token of a
// large dataset takes minutes, so the answer is kept in a file, with what tells whether it still
// holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "slimpack/base/units.h"
#include "slimpack/data/indexed_dataset.h"

namespace slimpack {

struct TokenPlace {
  std::int64_t token = 0;
  std::size_t document = 0;
  std::int64_t position = 0;  ///< in the document, from 0

  bool operator==(const TokenPlace&) const = default;
};

/// The first of the smallest tokens and the first of the largest, whatever their sign. Both absent
/// for a dataset without tokens.
struct TokenRange {
  std::optional<TokenPlace> smallest;
  std::optional<TokenPlace> largest;

  bool operator==(const TokenRange&) const = default;
};

/// Reads every token. `advance` is told of so many more every few million; it may throw, which ends
/// the reading.
[[nodiscard]] TokenRange token_range(const IndexedDataset& dataset,
                                     const std::function<void(Tokens)>& advance);

/// What changes when a dataset is written anew, and costs no reading of tokens. Documents may be
/// other ones with the same lengths, so an index alone would not do.
struct DatasetVersion {
  std::string index_checksum;
  std::int64_t bin_bytes = 0;
  std::int64_t bin_modified_ns = 0;

  bool operator==(const DatasetVersion&) const = default;
};
/// Throws InvalidInput when the .bin is not there any more. Reads the index.
[[nodiscard]] DatasetVersion version_of(const IndexedDataset& dataset,
                                        const std::filesystem::path& prefix);

/// PREFIX.checked.json.
[[nodiscard]] std::filesystem::path checked_path(const std::filesystem::path& prefix);

[[nodiscard]] std::string token_range_to_json(const TokenRange& range,
                                              const DatasetVersion& version);
/// The range in `file`; none when there is no such file, it cannot be read, or it is of another
/// version.
[[nodiscard]] std::optional<TokenRange> noted_token_range(const std::filesystem::path& file,
                                                          const DatasetVersion& version);

}  // namespace slimpack
