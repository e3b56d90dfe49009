#include "slimpack/training/document_reader.h"

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

DocumentReader::DocumentReader(std::filesystem::path prefix, const Decoder& shape,
                               std::filesystem::path model)
    : prefix_(std::move(prefix)),
      model_(std::move(model)),
      vocab_size_(shape.vocab_size),
      documents_(Documents::open(prefix_)) {}

StepTokens DocumentReader::read(std::span<const DocumentSequence> sequences) const {
  std::vector<SequenceTokens> all;
  for (const DocumentSequence& sequence : sequences) {
    const auto& tokens = all.emplace_back(documents_.read(sequence)).tokens;
    const auto largest = std::ranges::max_element(tokens);
    require_in_vocabulary(
        {*largest, sequence.document, sequence.begin.count() + (largest - tokens.begin())});
  }
  return make_step_tokens(all, vocab_size_);
}

void DocumentReader::require_in_vocabulary(const TokenRange& range) const {
  for (const auto& place : {range.smallest, range.largest})
    if (place) require_in_vocabulary(*place);
}

void DocumentReader::require_in_vocabulary(const TokenPlace& place) const {
  if (place.token < 0)
    invalid_input(
        "dataset '{}': document {} holds {} at position {}, tokens begin at 0; build the "
        "dataset again",
        prefix_.string(), place.document, place.token, place.position);
  if (place.token >= vocab_size_)
    invalid_input(
        "dataset '{}': document {} holds token {} at position {}, but vocab_size is {} in {}; "
        "build the dataset with this model's tokenizer or raise vocab_size",
        prefix_.string(), place.document, place.token, place.position, vocab_size_,
        model_.string());
}

}  // namespace slimpack
