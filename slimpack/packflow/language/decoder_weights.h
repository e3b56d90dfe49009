// The weights of a model for generation: without gradients, laid out for few rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "slimpack/packflow/checkpoint/safetensors.h"
#include "slimpack/packflow/decode/panel_product.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/dtype.h"

namespace slimpack {

/// A matrix [O, I]: on a CPU as panels, elsewhere as a tensor. No model is held twice.
class DecoderMatrix {
 public:
  DecoderMatrix() = default;
  /// Joins the matrices, one below the other.
  DecoderMatrix(const std::vector<at::Tensor>& weights_OI, Dtype dtype, at::Device device);

  [[nodiscard]] bool defined() const { return panels_.defined() || tensor_.defined(); }
  [[nodiscard]] const PanelMatrix& panels() const { return panels_; }
  /// The whole matrix. On a CPU it is a copy, at the speed of memory.
  [[nodiscard]] at::Tensor whole_OI() const {
    return tensor_.defined() ? tensor_ : panels_.whole_OI();
  }

 private:
  PanelMatrix panels_;
  at::Tensor tensor_;
};

/// Norms and biases are in the accumulate type. Biases and q/k norms are undefined where the shape
/// has none.
struct DecoderLayerWeights {
  at::Tensor attention_norm_H;
  DecoderMatrix qkv;  ///< rows: q, k, v
  at::Tensor qkv_bias_O;
  at::Tensor q_norm_D;
  at::Tensor k_norm_D;
  DecoderMatrix output;
  at::Tensor output_bias_H;
  at::Tensor mlp_norm_H;
  DecoderMatrix gate_up;  ///< rows: gate, up
  at::Tensor gate_up_bias_O;
  DecoderMatrix down;
  at::Tensor down_bias_H;
};

struct DecoderWeights {
  std::vector<DecoderLayerWeights> layers;
  DecoderMatrix embedding;  ///< [V, H]
  at::Tensor final_norm_H;
  DecoderMatrix head;  ///< [V, H]; undefined where the embedding is the head, too
  bool finite = true;  ///< whether all numbers were that the weights are made of

  [[nodiscard]] const DecoderMatrix& head_matrix() const {
    return head.defined() ? head : embedding;
  }
};

/// A norm's weight or a bias: rounded as the model's numbers are, in the accumulate type.
[[nodiscard]] at::Tensor summable_weight(const at::Tensor& tensor, Dtype dtype, at::Device device);

/// The layer whose tensors' names begin with `prefix`, such as "model.layers.0.".
[[nodiscard]] DecoderLayerWeights layer_weights(const NamedTensors& tensors,
                                                const std::string& prefix, Dtype dtype,
                                                at::Device device);

/// Rounds a model's tensors to the types. REQUIRES: sound_tensors (packflow/checkpoint).
[[nodiscard]] DecoderWeights decoder_weights(const Decoder& shape, const NamedTensors& tensors,
                                             Dtype dtype, at::Device device);

}  // namespace slimpack
