// Reads the sequences of a dataset and checks that a model knows their tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "slimpack/data/documents.h"
#include "slimpack/data/sequences.h"
#include "slimpack/data/token_range.h"
#include "slimpack/packflow/step/stage_step.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/workload/slice.h"

namespace slimpack {

[[nodiscard]] SequenceLengths lengths_of(std::span<const DocumentSequence> sequences);

/// Thread-safe.
class DocumentReader {
 public:
  /// `model` is the file that `shape` came from. Throws InvalidInput as Documents::open.
  DocumentReader(std::filesystem::path prefix, const Decoder& shape, std::filesystem::path model);

  [[nodiscard]] const Documents& documents() const { return documents_; }
  [[nodiscard]] const IndexedDataset& dataset() const { return documents_.dataset(); }

  /// The tokens of these sequences with their targets. Throws InvalidInput naming dataset,
  /// document, position and token if the model does not know a token: a dataset may change after
  /// check_tokens, or another machine may have another copy.
  [[nodiscard]] StepTokens read(std::span<const DocumentSequence> sequences) const;

  /// Throws InvalidInput as read() if the model does not know one of the extremes.
  void require_in_vocabulary(const TokenRange& range) const;

 private:
  void require_in_vocabulary(const TokenPlace& place) const;

  std::filesystem::path prefix_;
  std::filesystem::path model_;
  std::int64_t vocab_size_;
  Documents documents_;
};

}  // namespace slimpack
