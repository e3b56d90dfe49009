// The documents that a run trains on, step by step.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "slimpack/data/sampler.h"
#include "slimpack/data/sequences.h"
#include "slimpack/packflow/step/stage_step.h"
#include "slimpack/spec/run_config.h"
#include "slimpack/training/document_reader.h"

namespace slimpack {

/// The sequences of one step.
struct StepBatch {
  std::vector<DocumentSequence> sequences;  ///< by SequenceId
  StepTokens tokens;
  SamplerCursor cursor;  ///< right after these sequences
  /// Sequences that were drawn before these and left out: steps without a target.
  std::int64_t left_out = 0;
};

/// A checksum of the documents' numbers, of the token ranges in them and of how many targets these
/// have.
[[nodiscard]] std::string checksum_of_documents(std::span<const DocumentSequence> sequences,
                                                std::int64_t targets);

/// Draws steps from a dataset and reads their tokens. One thread at a time may use it; any thread
/// may use its reader.
class DocumentStream {
 public:
  /// Begins at `from`. Throws InvalidInput as Sampler, and for data without a target.
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

}  // namespace slimpack
