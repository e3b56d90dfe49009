#include "slimpack/packflow/language/decoder_weights.h"

#include <ATen/ops/cat.h>
#include <fmt/format.h>

#include <initializer_list>

#include "slimpack/packflow/device/tensor.h"

namespace slimpack {
namespace {

/// Whether all numbers are finite of the tensors whose names begin with `prefix`. Right after these
/// were read it costs no second read from disk.
bool are_finite(const NamedTensors& tensors, const std::string& prefix) {
  for (auto it = tensors.lower_bound(prefix); it != tensors.end() && it->first.starts_with(prefix);
       ++it)
    if (number_not_finite(it->second)) return false;
  return true;
}

/// Makes weights of the tensors of one layer, or of the model.
class WeightMaker {
 public:
  WeightMaker(const NamedTensors& tensors, std::string prefix, Dtype dtype, at::Device device)
      : tensors_(tensors), prefix_(std::move(prefix)), dtype_(dtype), device_(device) {}

  [[nodiscard]] DecoderMatrix matrix(std::initializer_list<const char*> names) const {
    std::vector<at::Tensor> parts;
    for (const char* name : names) parts.push_back(tensors_.at(prefix_ + name + ".weight"));
    return {parts, dtype_, device_};
  }
  [[nodiscard]] at::Tensor norm(const char* name) const {
    const auto found = tensors_.find(prefix_ + name + ".weight");
    return found == tensors_.end() ? at::Tensor() : summable_weight(found->second, dtype_, device_);
  }
  [[nodiscard]] at::Tensor bias(std::initializer_list<const char*> names) const {
    std::vector<at::Tensor> parts;
    for (const char* name : names) {
      const auto found = tensors_.find(prefix_ + name + ".bias");
      if (found == tensors_.end()) return {};
      parts.push_back(found->second);
    }
    return summable_weight(at::cat(parts), dtype_, device_);
  }

 private:
  const NamedTensors& tensors_;
  std::string prefix_;
  Dtype dtype_;
  at::Device device_;
};

}  // namespace

DecoderMatrix::DecoderMatrix(const std::vector<at::Tensor>& weights_OI, Dtype dtype,
                             at::Device device) {
  const at::Tensor joined = joined_rows(weights_OI);
  if (device.is_cpu()) {
    panels_ = PanelMatrix(joined, compute_type(dtype));
  } else {
    tensor_ = joined.to(at::dtype(compute_type(dtype)).device(device));
  }
}

at::Tensor summable_weight(const at::Tensor& tensor, Dtype dtype, at::Device device) {
  const auto sums = at::dtype(accumulate_type(dtype)).device(device);
  return tensor.to(compute_type(dtype)).to(sums, false, /*copy=*/true).contiguous();
}

DecoderLayerWeights layer_weights(const NamedTensors& tensors, const std::string& prefix,
                                  Dtype dtype, at::Device device) {
  const WeightMaker make(tensors, prefix, dtype, device);
  return {
      .attention_norm_H = make.norm("input_layernorm"),
      .qkv = make.matrix({"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}),
      .qkv_bias_O = make.bias({"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}),
      .q_norm_D = make.norm("self_attn.q_norm"),
      .k_norm_D = make.norm("self_attn.k_norm"),
      .output = make.matrix({"self_attn.o_proj"}),
      .output_bias_H = make.bias({"self_attn.o_proj"}),
      .mlp_norm_H = make.norm("post_attention_layernorm"),
      .gate_up = make.matrix({"mlp.gate_proj", "mlp.up_proj"}),
      .gate_up_bias_O = make.bias({"mlp.gate_proj", "mlp.up_proj"}),
      .down = make.matrix({"mlp.down_proj"}),
      .down_bias_H = make.bias({"mlp.down_proj"}),
  };
}

DecoderWeights decoder_weights(const Decoder& shape, const NamedTensors& tensors, Dtype dtype,
                               at::Device device) {
  const WeightMaker make(tensors, "", dtype, device);
  DecoderWeights weights;
  const auto look = [&](const std::string& prefix) {
    weights.finite = weights.finite && are_finite(tensors, prefix);
  };
  for (std::int64_t layer = 0; layer < shape.num_layers(); ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    weights.layers.push_back(layer_weights(tensors, prefix, dtype, device));
    look(prefix);
  }
  weights.embedding = make.matrix({"model.embed_tokens"});
  weights.final_norm_H = make.norm("model.norm");
  if (!shape.tie_embeddings) weights.head = make.matrix({"lm_head"});
  for (const char* prefix : {"model.embed_tokens.", "model.norm.", "lm_head."}) look(prefix);
  return weights;
}

}  // namespace slimpack
