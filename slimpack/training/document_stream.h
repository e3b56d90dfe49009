// The documents that a run trains on, step by step.
#pragma once

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

/// What one step trains on.
struct StepBatch {
  std::vector<DocumentSequence> sequences;  ///< by SequenceId
  StepTokens tokens;
  SamplerCursor cursor;  ///< after them: other steps may have been drawn since
};

/// Of which documents, and which tokens of them.
[[nodiscard]] std::string checksum_of_documents(std::span<const DocumentSequence> sequences);

/// Draws steps from a dataset and reads their tokens. One thread at a time uses it, but for the
/// reader, which any may.
class DocumentStream {
 public:
  /// Goes on at `from`. Throws InvalidInput as Sampler.
  DocumentStream(DocumentReader reader, const DataConfig& data, const SamplerCursor& from);

  [[nodiscard]] const DocumentReader& reader() const { return reader_; }

  /// Throws InvalidInput as DocumentReader::read.
  [[nodiscard]] StepBatch next();
  /// What next() will return; drawn once.
  [[nodiscard]] const StepBatch& peek();

 private:
  [[nodiscard]] StepBatch draw();

  DocumentReader reader_;
  Sampler sampler_;
  std::optional<StepBatch> peeked_;
};

}  // namespace slimpack
