#include "slimpack/training/document_stream.h"

#include <utility>

#include "slimpack/base/checksum.h"
#include "slimpack/job/configured_sequences.h"

namespace slimpack {

std::string checksum_of_documents(std::span<const DocumentSequence> sequences) {
  std::vector<std::uint64_t> numbers;
  for (const DocumentSequence& s : sequences)
    for (const auto number :
         {static_cast<std::int64_t>(s.document), s.begin.count(), s.length.count()})
      numbers.push_back(static_cast<std::uint64_t>(number));
  return checksum_of(std::as_bytes(std::span(numbers)));
}

DocumentStream::DocumentStream(DocumentReader reader, const DataConfig& data,
                               const SamplerCursor& from)
    : reader_(std::move(reader)),
      sampler_(reader_.dataset().lengths(), {configured_sequences(data), data.step_tokens}, from) {}

StepBatch DocumentStream::draw() {
  std::vector<DocumentSequence> sequences = sampler_.next_step();
  StepTokens tokens = reader_.read(sequences);
  return {std::move(sequences), std::move(tokens), sampler_.cursor()};
}

const StepBatch& DocumentStream::peek() {
  if (!peeked_) peeked_ = draw();
  return *peeked_;
}

StepBatch DocumentStream::next() {
  return peeked_ ? *std::exchange(peeked_, std::nullopt) : draw();
}

}  // namespace slimpack
