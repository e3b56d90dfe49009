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

double StepBatch::target_share() const {
  const std::int64_t behind_others =
      total_tokens(lengths_of(sequences)).count() - std::ssize(sequences);
  return static_cast<double>(tokens.targets) / static_cast<double>(behind_others);
}

DocumentReader::DocumentReader(const std::vector<std::filesystem::path>& prefixes,
                               const Decoder& shape, std::filesystem::path model, LossKind loss)
    : model_(std::move(model)), vocab_size_(shape.vocab_size), loss_(loss) {
  std::size_t documents = 0;
  for (const std::filesystem::path& prefix : prefixes) {
    const Documents& source = sources_.emplace_back(Documents::open(prefix));
    first_documents_.push_back(std::exchange(documents, documents + source.dataset().documents()));
  }
}

std::vector<std::vector<Tokens>> DocumentReader::lengths() const {
  std::vector<std::vector<Tokens>> lengths;
  for (const Documents& source : sources_) lengths.push_back(source.dataset().lengths());
  return lengths;
}

StepTokens DocumentReader::read(std::span<const DocumentSequence> sequences) const {
  std::vector<SequenceTokens> all;
  for (DocumentSequence sequence : sequences) {
    const auto after = std::ranges::upper_bound(first_documents_, sequence.document);
    const auto number = static_cast<std::size_t>(after - first_documents_.begin()) - 1;
    const Documents& source = sources_[number];
    sequence.document -= first_documents_[number];
    const auto& tokens = all.emplace_back(source.read(sequence)).tokens;
    const auto largest = std::ranges::max_element(tokens);
    require_in_vocabulary(
        source, {*largest, sequence.document, sequence.begin.count() + (largest - tokens.begin())});
  }
  return make_step_tokens(all, vocab_size_, loss_);
}

void DocumentReader::require_in_vocabulary(const Documents& source, const TokenRange& range) const {
  for (const auto& place : {range.smallest, range.largest})
    if (place) require_in_vocabulary(source, *place);
}

void DocumentReader::require_in_vocabulary(const Documents& source, const TokenPlace& place) const {
  if (place.token < 0)
    invalid_input(
        "dataset '{}': document {} holds {} at position {}, tokens begin at 0; build the "
        "dataset again",
        source.prefix().string(), place.document, place.token, place.position);
  if (place.token >= vocab_size_)
    invalid_input(
        "dataset '{}': document {} holds token {} at position {}, but vocab_size is {} in {}; "
        "build the dataset with this model's tokenizer or raise vocab_size",
        source.prefix().string(), place.document, place.token, place.position, vocab_size_,
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

/// Throws if there is nothing to train on in one of the datasets.
void require_targets(const DocumentReader& reader, const DataConfig& data) {
  if (data.context < Tokens(2))
    invalid_input(
        "data.context is {}, so no token has one before it that predicts it; set it to 2 or more",
        data.context.count());
  const SequenceRule rule = configured_sequences(data);
  for (const Documents& source : reader.sources()) {
    if (has_target(source, rule)) continue;
    if (rule.long_documents == LongDocumentsKind::kDrop)
      require_sequences(source.dataset().lengths(), rule,
                        fmt::format("dataset '{}'", source.prefix().string()));
    invalid_input(
        "{} '{}', whose {} documents have no target: no token that another one before it "
        "predicts{}",
        data.sources.empty() ? "data.prefix is" : "data.sources has", source.prefix().string(),
        source.dataset().documents(),
        source.mask() != nullptr ? " and the mask counts; write a mask that counts some"
                                 : "; build the dataset from longer documents");
  }
}

/// The mixture that the sampler draws from, once it is known that there is something to train on.
Mixture checked_mixture(const DocumentReader& reader, const DataConfig& data) {
  require_targets(reader, data);
  return configured_mixture(data, reader.lengths());
}

}  // namespace

DocumentStream::DocumentStream(DocumentReader reader, const DataConfig& data,
                               const SamplerCursor& from)
    : reader_(std::move(reader)),
      sampler_(checked_mixture(reader_, data), {configured_sequences(data), data.step_tokens},
               from) {}

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
  static_cast<void>(agreement.from_first([&]() -> std::string {
    fs::path elsewhere = config.output.dir / "data";
    for (const Documents& source : reader.sources()) {
      const fs::path& prefix = source.prefix();
      reader.require_in_vocabulary(
          source, known_range(source.dataset(), prefix, elsewhere, agreement, listener));
      if (source.mask() != nullptr)
        source.require_mask_bytes(known_range(*source.mask(), mask_prefix(prefix),
                                              mask_prefix(elsewhere), agreement, listener));
      elsewhere += "-next";
    }
    return "";
  }));
}

}  // namespace slimpack
