#include "slimpack/data/documents.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace slimpack {

Documents Documents::open(const std::filesystem::path& prefix) {
  return Documents(IndexedDataset::open(prefix));
}

TargetMask Documents::targets(const DocumentSequence& sequence) const {
  return all_targets(static_cast<std::size_t>(sequence.length.count()));
}

SequenceTokens Documents::read(const DocumentSequence& sequence) const {
  SequenceTokens read{std::vector<std::int64_t>(static_cast<std::size_t>(sequence.length.count())),
                      targets(sequence)};
  dataset_.copy_tokens(sequence.document, sequence.begin, read.tokens);
  return read;
}

}  // namespace slimpack
