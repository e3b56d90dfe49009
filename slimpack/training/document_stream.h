// The documents that a run trains on: reads their tokens and checks that a model knows them, all of
// them before the first step, and draws them step by step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "slimpack/data/documents.h"
#include "slimpack/data/sampler.h"
#include "slimpack/data/sequences.h"
#include "slimpack/data/token_range.h"
#include "slimpack/packflow/step/stage_step.h"
#include "slimpack/plan/slice.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/training/job_agreement.h"
#include "slimpack/training/training_listener.h"

namespace slimpack {

/// Reads one dataset or several, whose documents are numbered through as Sampler does. Thread-safe.
class DocumentReader {
 public:
  /// `model` is the file that `shape` came from, `loss` says how targets are weighted. Throws
  /// InvalidInput as Documents::open.
  DocumentReader(const std::vector<std::filesystem::path>& prefixes, const Decoder& shape,
                 std::filesystem::path model, LossKind loss);

  [[nodiscard]] const std::vector<Documents>& sources() const { return sources_; }
  /// By source the lengths of its documents.
  [[nodiscard]] std::vector<std::vector<Tokens>> lengths() const;

  /// The tokens of these sequences with their targets. Throws InvalidInput naming dataset,
  /// document, position and token if the model does not know a token: a dataset may change after
  /// check_tokens, or another machine may have another copy.
  [[nodiscard]] StepTokens read(std::span<const DocumentSequence> sequences) const;

  /// Throws InvalidInput as read() if the model does not know one of a source's extremes.
  void require_in_vocabulary(const Documents& source, const TokenRange& range) const;

 private:
  void require_in_vocabulary(const Documents& source, const TokenPlace& place) const;

  std::filesystem::path model_;
  std::int64_t vocab_size_;
  LossKind loss_;
  std::vector<Documents> sources_;
  std::vector<std::size_t> first_documents_;  ///< by source
};

/// The sequences of one step.
struct StepBatch {
  std::vector<DocumentSequence> sequences;  ///< by SequenceId
  StepTokens tokens;
  SamplerCursor cursor;  ///< right after these sequences
  /// Sequences that were drawn before these and left out: steps without a target.
  std::int64_t left_out = 0;

  /// Share of the tokens behind another one that are targets. REQUIRES: a target.
  [[nodiscard]] double target_share() const;
};

/// A checksum of the documents' numbers, of the token ranges in them and of how many targets these
/// have.
[[nodiscard]] std::string checksum_of_documents(std::span<const DocumentSequence> sequences,
                                                std::int64_t targets);

/// Draws steps from the datasets of a run and reads their tokens. One thread at a time may use it;
/// any thread may use its reader.
class DocumentStream {
 public:
  /// Begins at `from`. Throws InvalidInput as Sampler, and for a dataset without a target.
  /// REQUIRES: the reader has data.datasets().
  DocumentStream(DocumentReader reader, const DataConfig& data, const SamplerCursor& from);

  [[nodiscard]] const DocumentReader& reader() const { return reader_; }

  /// Draws the next step that has a target. Throws InvalidInput as
  /// DocumentReader::read.
  [[nodiscard]] StepBatch next();
  /// The step that next() will return.
  [[nodiscard]] const StepBatch& peek();

 private:
  [[nodiscard]] StepBatch draw();

  DocumentReader reader_;
  Sampler sampler_;
  std::optional<StepBatch> peeked_;
};

/// Reads every token, and every byte of the mask where there is one, and tells `listener` its
/// progress. Skips the reading if a file notes the dataset's token range: PREFIX.checked.json (of a
/// mask PREFIX.mask.checked.json), or a file in output.dir if the dataset's folder cannot be
/// written. In a job of several processes only the first reads, and all return or throw the same.
/// Throws InvalidInput naming the place of a token that the model does not know, or of a byte that
/// is none of a mask's, and Interrupted if the first process was asked to stop.
void check_tokens(const RunConfig& config, const DocumentReader& reader,
                  const JobAgreement& agreement, TrainingListener& listener);

}  // namespace slimpack
