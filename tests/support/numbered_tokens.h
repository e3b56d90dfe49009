// Writes datasets whose tokens tell where they stand.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "slimpack/data/indexed_dataset_writer.h"

namespace slimpack {

/// A dataset of documents of these lengths. Every token has an id of its own: the number of tokens
/// before it. Returns the number of tokens.
inline std::int64_t write_numbered_tokens(const std::filesystem::path& prefix,
                                          const std::vector<std::int32_t>& lengths) {
  IndexedDatasetWriter writer(prefix, 1 << 20);
  std::int32_t next = 0;
  for (const std::int32_t length : lengths) {
    std::vector<std::int32_t> document;
    for (std::int32_t i = 0; i < length; ++i) document.push_back(next++);
    writer.append(document);
  }
  writer.commit();
  return next;
}

}  // namespace slimpack
