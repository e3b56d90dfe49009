#include "slimpack/training/document_stream.h"

#include <algorithm>
#include <utility>

#include "slimpack/base/checksum.h"
#include "slimpack/base/error.h"
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

namespace {

void require_targets(const DocumentReader& reader, const DataConfig& data) {
  if (data.context < Tokens(2))
    invalid_input(
        "data.context is {}, so no token has one before it that predicts it; set it to 2 or more",
        data.context.count());
  const std::vector<Tokens> lengths = reader.dataset().lengths();
  if (std::ranges::none_of(lengths, [](Tokens length) { return length >= Tokens(2); }))
    invalid_input(
        "data.prefix is '{}', whose {} documents have less than two tokens each, so no token is "
        "predicted; build the dataset from longer documents",
        data.prefix.string(), lengths.size());
}

/// The sampler's options, once it is known that there is something to train on.
SamplerOptions checked_options(const DocumentReader& reader, const DataConfig& data) {
  require_targets(reader, data);
  return {configured_sequences(data), data.step_tokens};
}

}  // namespace

DocumentStream::DocumentStream(DocumentReader reader, const DataConfig& data,
                               const SamplerCursor& from)
    : reader_(std::move(reader)),
      sampler_(reader_.dataset().lengths(), checked_options(reader_, data), from) {}

// A step without a target has no loss and no gradient, and an update would only shrink weights.
StepBatch DocumentStream::draw() {
  std::int64_t left_out = 0;
  while (true) {
    std::vector<DocumentSequence> sequences = sampler_.next_step();
    StepTokens tokens = reader_.read(sequences);
    if (tokens.targets > 0)
      return {std::move(sequences), std::move(tokens), sampler_.cursor(), left_out};
    left_out += static_cast<std::int64_t>(sequences.size());
  }
}

const StepBatch& DocumentStream::peek() {
  if (!peeked_) peeked_ = draw();
  return *peeked_;
}

StepBatch DocumentStream::next() {
  return peeked_ ? *std::exchange(peeked_, std::nullopt) : draw();
}

}  // namespace slimpack
