// Language model: runs tokens of sequences through a decoder and says what may follow.
//
// Few rows on a CPU run through operators that are made for them (packflow/decode), many rows and
// other devices through libtorch's.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "slimpack/packflow/checkpoint/safetensors.h"
#include "slimpack/packflow/language/decoder_weights.h"
#include "slimpack/packflow/language/key_value_cache.h"
#include "slimpack/packflow/language/rope_table.h"
#include "slimpack/packflow/language/row_decoder.h"
#include "slimpack/packflow/language/sparse_prefill.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/dtype.h"

namespace slimpack {

/// Tokens that go through the model together, after those in the cache.
struct TokenRows {
  std::span<const std::int64_t> tokens;
  /// A tree's rows name the row before each of them; −1 = the last token in the cache. Empty = the
  /// tokens are a sequence.
  std::span<const std::int32_t> parents = {};
  /// Layers whose inputs are wanted; ascending.
  std::span<const std::int64_t> feature_layers = {};
  /// The sparse attention of a sequence's slice; null = dense attention. Few rows on a CPU are
  /// always dense.
  SparsePrefill* sparse = nullptr;
};

/// The results of a pass, in the accumulate type, on the model's device.
struct RowStates {
  at::Tensor hidden_TH;    ///< after the last layer, before the final norm
  at::Tensor features_TH;  ///< the wanted layers' inputs side by side; undefined without any
};

/// A sequence and the token that it goes on with.
struct NextToken {
  KeyValueCache& cache;
  std::int64_t token;
};

/// Not thread-safe: it keeps memory from call to call.
class LanguageModel {
 public:
  /// REQUIRES: sound_tensors (packflow/checkpoint).
  LanguageModel(const Decoder& shape, const NamedTensors& tensors, Dtype dtype, at::Device device);

  [[nodiscard]] const Decoder& shape() const { return shape_; }
  [[nodiscard]] Dtype dtype() const { return dtype_; }
  [[nodiscard]] at::Device device() const { return device_; }
  [[nodiscard]] const DecoderWeights& weights() const { return weights_; }

  [[nodiscard]] KeyValueCache make_cache() const { return {shape_, dtype_, device_}; }

  /// Makes room for so many tokens in the cache and in rope's tables, which grow in run() else.
  void reserve(KeyValueCache& cache, std::int64_t tokens);

  /// Runs the rows and appends their keys and values to the cache. Throws InvalidInput for a token
  /// that is not in the vocabulary and for positions that the model does not have.
  [[nodiscard]] RowStates run(KeyValueCache& cache, const TokenRows& rows);

  /// Runs one token of each sequence, all of them together where the device is a CPU: weights are
  /// read once, so that a token costs less than alone. Result: hidden states [sequences, H].
  /// Throws as run(). REQUIRES: the caches differ.
  [[nodiscard]] at::Tensor run_batch(std::span<const NextToken> sequences);

  /// Logits of hidden states: [T, V], accumulate type, on the CPU.
  [[nodiscard]] at::Tensor logits(const at::Tensor& hidden_TH);

 private:
  void require_fits(const KeyValueCache& cache, const TokenRows& rows) const;
  template <class Input>
  RowStates run_few(RowDecoder<Input>& decoder, std::span<const SequenceRows> sequences,
                    const TokenRows& rows, std::span<const std::int64_t> positions);
  RowStates run_slice(KeyValueCache& cache, const TokenRows& rows, const OwnKeys& own,
                      std::span<const std::int64_t> positions);
  at::Tensor run_halves(std::span<const NextToken> sequences);
  [[nodiscard]] bool runs_as_rows(std::int64_t rows) const;

  Decoder shape_;
  Dtype dtype_;
  at::Device device_;
  DecoderWeights weights_;
  RopeTable rope_;
  AnyRowDecoder rows_;
};

/// Where the model of a folder is: the folder itself, or its newest checkpoint. Throws InvalidInput
/// where there is neither.
[[nodiscard]] std::filesystem::path model_folder(const std::filesystem::path& folder);

/// The model of a Hugging Face folder or a checkpoint, rounded to `dtype`. Throws InvalidInput for
/// any other folder.
[[nodiscard]] LanguageModel load_language_model(const std::filesystem::path& folder, Dtype dtype,
                                                at::Device device);

}  // namespace slimpack
