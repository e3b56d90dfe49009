// EAGLE-3's draft head (arXiv:2503.01840): its files and weights.
//
// Row i pairs g_i, what fc makes of three hidden states of token t_i, with the embedding of
// t_{i+1}. One decoder layer makes of them the g of t_{i+1} and the guess of t_{i+2}.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <vector>

#include "slimpack/packflow/language/decoder_weights.h"
#include "slimpack/packflow/language/language_model.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/dtype.h"

namespace slimpack {

struct EagleHead {
  Decoder shape;  ///< of its layer; its vocabulary is that of its guesses
  std::int64_t target_hidden_size = 0;
  std::vector<std::int64_t> feature_layers;  ///< of the target: whose inputs fc takes; three
  bool norm_before_residual = false;         ///< the attention's residual is the normed g
  bool norm_output = false;                  ///< the next g is the normed output

  std::vector<at::Tensor> feature_norms_H;  ///< one for each feature, or none
  DecoderMatrix combine;                    ///< fc
  at::Tensor hidden_norm_H;
  DecoderLayerWeights layer;
  at::Tensor final_norm_H;
  DecoderMatrix head;
  DecoderMatrix embedding;                  ///< undefined = the target's
  std::vector<std::int64_t> target_tokens;  ///< by guess
};

/// A head in EAGLE-3's own form: config.json and model.safetensors with tensors named `midlayer.…`
/// (`slimpack draft convert` makes it of other forms). Throws InvalidInput for a folder without
/// such a head, and for a head of another target.
[[nodiscard]] EagleHead load_eagle_head(const std::filesystem::path& folder,
                                        const LanguageModel& target);

}  // namespace slimpack
