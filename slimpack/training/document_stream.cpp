#include "slimpack/training/document_stream.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/base/checksum.h"
#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/data/token_range.h"
#include "slimpack/job/configured_sequences.h"

namespace slimpack {

SequenceLengths lengths_of(std::span<const DocumentSequence> sequences) {
  SequenceLengths lengths;
  for (const DocumentSequence& sequence : sequences) lengths.push_back(sequence.length);
  return lengths;
}

double StepBatch::target_share() const {
  const std::int64_t behind_others =
      total_tokens(lengths_of(sequences)).count() - std::ssize(sequences);
  return static_cast<double>(tokens.targets) / static_cast<double>(behind_others);
}

DocumentReader::DocumentReader(std::filesystem::path prefix, const Decoder& shape,
                               std::filesystem::path model, LossKind loss)
    : prefix_(std::move(prefix)),
      model_(std::move(model)),
      vocab_size_(shape.vocab_size),
      loss_(loss),
      documents_(Documents::open(prefix_)) {}

StepTokens DocumentReader::read(std::span<const DocumentSequence> sequences) const {
  std::vector<SequenceTokens> all;
  for (const DocumentSequence& sequence : sequences) {
    const auto& tokens = all.emplace_back(documents_.read(sequence)).tokens;
    const auto largest = std::ranges::max_element(tokens);
    require_in_vocabulary(
        {*largest, sequence.document, sequence.begin.count() + (largest - tokens.begin())});
  }
  return make_step_tokens(all, vocab_size_, loss_);
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

std::string checksum_of_documents(std::span<const DocumentSequence> sequences,
                                  std::int64_t targets) {
  std::vector<std::uint64_t> numbers{static_cast<std::uint64_t>(targets)};
  for (const DocumentSequence& s : sequences)
    for (const auto number :
         {static_cast<std::int64_t>(s.document), s.begin.count(), s.length.count()})
      numbers.push_back(static_cast<std::uint64_t>(number));
  return checksum_of(std::as_bytes(std::span(numbers)));
}

namespace {

/// Reads as far as the first target.
bool has_target(const Documents& documents, const SequenceRule& rule) {
  for (std::size_t d = 0; d < documents.dataset().documents(); ++d) {
    const Tokens length = documents.dataset().length(d);
    for (std::int64_t k = 0; k < sequence_count(length, rule); ++k)
      if (count_of(documents.targets(sequence_of(d, length, k, rule))) > 0) return true;
  }
  return false;
}

void require_targets(const DocumentReader& reader, const DataConfig& data) {
  if (data.context < Tokens(2))
    invalid_input(
        "data.context is {}, so no token has one before it that predicts it; set it to 2 or more",
        data.context.count());
  if (!has_target(reader.documents(), configured_sequences(data)))
    invalid_input(
        "data.prefix is '{}', whose {} documents have no target: no token that another one before "
        "it predicts{}",
        data.prefix.string(), reader.dataset().documents(),
        reader.documents().mask() != nullptr ? " and the mask counts; write a mask that counts some"
                                             : "; build the dataset from longer documents");
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

namespace {

namespace fs = std::filesystem;

constexpr const char* kStopped = "stopped on request while reading tokens; nothing written";

TokenRange read_all(const IndexedDataset& dataset, const fs::path& prefix,
                    const JobAgreement& agreement, TrainingListener& listener) {
  const std::vector<Tokens> lengths = dataset.lengths();
  const Tokens all = std::accumulate(lengths.begin(), lengths.end(), Tokens(0));
  Tokens checked;
  listener.tokens_checked(prefix, checked, all);
  return token_range(dataset, [&](Tokens more) {
    if (agreement.should_stop()()) throw Interrupted(kStopped);
    checked += more;
    listener.tokens_checked(prefix, checked, all);
  });
}

/// Writes the note to the first place that can be written. If none can, the next start reads all
/// tokens again.
void note(const std::array<fs::path, 2>& places, const std::string& text) {
  for (const fs::path& place : places) {
    try {
      return write_file(place, text);
    } catch (const std::exception&) {
      continue;
    }
  }
}

/// `elsewhere`: a prefix in place of `prefix` if the note cannot be written beside the dataset.
TokenRange known_range(const IndexedDataset& dataset, const fs::path& prefix,
                       const fs::path& elsewhere, const JobAgreement& agreement,
                       TrainingListener& listener) {
  const DatasetVersion version = version_of(dataset, prefix);
  const std::array places{checked_path(prefix), checked_path(elsewhere)};
  for (const fs::path& place : places)
    if (const auto noted = noted_token_range(place, version)) return *noted;
  const TokenRange range = read_all(dataset, prefix, agreement, listener);
  note(places, token_range_to_json(range, version));
  return range;
}

}  // namespace

void check_tokens(const RunConfig& config, const DocumentReader& reader,
                  const JobAgreement& agreement, TrainingListener& listener) {
  const fs::path& prefix = config.data.prefix;
  const fs::path elsewhere = config.output.dir / "data";
  static_cast<void>(agreement.from_first([&]() -> std::string {
    reader.require_in_vocabulary(
        known_range(reader.dataset(), prefix, elsewhere, agreement, listener));
    const Documents& documents = reader.documents();
    if (documents.mask() != nullptr)
      documents.require_mask_bytes(known_range(*documents.mask(), mask_prefix(prefix),
                                               mask_prefix(elsewhere), agreement, listener));
    return "";
  }));
}

}  // namespace slimpack
