#include "apps/slimpack/document_reader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"

namespace slimpack {

SequenceLengths lengths_of(std::span<const DocumentSequence> sequences) {
  SequenceLengths lengths;
  for (const DocumentSequence& sequence : sequences) lengths.push_back(sequence.length);
  return lengths;
}

DocumentReader::DocumentReader(std::filesystem::path prefix, const ModelShape& shape,
                               std::filesystem::path model)
    : prefix_(std::move(prefix)),
      model_(std::move(model)),
      vocab_size_(shape.vocab_size),
      dataset_(IndexedDataset::open(prefix_)) {}

StepTokens DocumentReader::read(std::span<const DocumentSequence> sequences) const {
  std::vector<std::vector<std::int64_t>> tokens;
  for (const DocumentSequence& sequence : sequences) {
    auto& read = tokens.emplace_back(static_cast<std::size_t>(sequence.length.count()));
    dataset_.copy_tokens(sequence.document, sequence.begin, read);
    require_in_vocabulary(sequence.document, read);
  }
  return make_step_tokens(tokens, vocab_size_);
}

void DocumentReader::require_in_vocabulary(std::size_t document,
                                           std::span<const std::int64_t> tokens) const {
  const std::int64_t largest = *std::ranges::max_element(tokens);
  if (largest >= vocab_size_)
    invalid_input(
        "dataset '{}': document {} holds token {}, but vocab_size is {} in {}; build the dataset "
        "with this model's tokenizer or raise vocab_size",
        prefix_.string(), document, largest, vocab_size_, model_.string());
}

}  // namespace slimpack
