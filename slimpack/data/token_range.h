// The range of a dataset's tokens tells whether a model knows all of them. Reading every token of a
// large dataset takes minutes, so a file keeps the range and the version of the dataset.
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

/// The first place of the smallest and of the largest token, which may be negative. Both are absent
/// for a dataset without tokens.
struct TokenRange {
  std::optional<TokenPlace> smallest;
  std::optional<TokenPlace> largest;

  bool operator==(const TokenRange&) const = default;
};

/// Reads every token. Calls `advance` with the number of tokens read since the last call, every few
/// million tokens. An exception of `advance` ends the reading.
[[nodiscard]] TokenRange token_range(const IndexedDataset& dataset,
                                     const std::function<void(Tokens)>& advance);

/// Changes when a dataset is written anew; finding it reads no tokens. The index alone would not
/// do: other documents may have the same lengths.
struct DatasetVersion {
  std::string index_checksum;
  std::int64_t bin_bytes = 0;
  std::int64_t bin_modified_ns = 0;

  bool operator==(const DatasetVersion&) const = default;
};
/// Reads the index. Throws InvalidInput if the .bin no longer exists.
[[nodiscard]] DatasetVersion version_of(const IndexedDataset& dataset,
                                        const std::filesystem::path& prefix);

/// PREFIX.checked.json.
[[nodiscard]] std::filesystem::path checked_path(const std::filesystem::path& prefix);

[[nodiscard]] std::string token_range_to_json(const TokenRange& range,
                                              const DatasetVersion& version);
/// The range in `file`. None if the file is missing or unreadable, or has another version.
[[nodiscard]] std::optional<TokenRange> noted_token_range(const std::filesystem::path& file,
                                                          const DatasetVersion& version);

}  // namespace slimpack
