#include "slimpack/packflow/parameters.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "slimpack/packflow/tensor.h"

namespace slimpack {
namespace {

/// FNV-1a: the same on every platform, unlike std::hash.
std::uint64_t hash_name(const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const unsigned char c : name) hash = (hash ^ c) * 0x100000001b3ULL;
  return hash;
}

class ParameterMaker {
 public:
  ParameterMaker(const ModelShape& shape, Dtype dtype, std::uint64_t seed)
      : shape_(shape), dtype_(dtype), seed_(seed) {}

  Parameter matrix(std::vector<ParameterPart> parts, std::int64_t columns) const {
    const at::Tensor value = at::empty({place(parts), columns}, accumulate_type(dtype_));
    for (const ParameterPart& part : parts) {
      const auto generator = at::detail::createCPUGenerator(seed_ ^ hash_name(part.name));
      value.narrow(0, part.begin, part.rows).normal_(0.0, shape_.initializer_range, generator);
    }
    return finish(value, std::move(parts), true);
  }

  Parameter norm(const std::string& name, std::int64_t width) const {
    return finish(at::ones({width}, accumulate_type(dtype_)), {{name, 0, width}}, false);
  }

  Parameter bias(std::vector<ParameterPart> parts) const {
    const std::int64_t rows = place(parts);
    return finish(at::zeros({rows}, accumulate_type(dtype_)), std::move(parts), false);
  }

 private:
  /// Lays the parts end to end; returns the total number of rows.
  static std::int64_t place(std::vector<ParameterPart>& parts) {
    std::int64_t rows = 0;
    for (ParameterPart& part : parts) {
      part.begin = rows;
      rows += part.rows;
    }
    return rows;
  }

  Parameter finish(at::Tensor master, std::vector<ParameterPart> parts, bool decay) const {
    Parameter p;
    p.master = std::move(master);
    p.value = dtype_ == Dtype::kBf16 ? p.master.to(at::kBFloat16) : p.master;
    p.gradient = at::zeros_like(p.master);
    p.first_moment = at::zeros_like(p.master);
    p.second_moment = at::zeros_like(p.master);
    p.decay = decay;
    p.parts = std::move(parts);
    return p;
  }

  const ModelShape& shape_;
  Dtype dtype_;
  std::uint64_t seed_;
};

LayerParameters make_layer(const ModelShape& s, const ParameterMaker& make, std::int32_t index) {
  const std::string at = "model.layers." + std::to_string(index) + ".";
  const auto part = [&](const char* name, std::int64_t rows) {
    return ParameterPart{at + name, 0, rows};
  };
  LayerParameters p;
  p.attention_norm_H = make.norm(at + "input_layernorm.weight", s.hidden_size);
  p.qkv_OH = make.matrix(
      {part("self_attn.q_proj.weight", s.q_width()), part("self_attn.k_proj.weight", s.kv_width()),
       part("self_attn.v_proj.weight", s.kv_width())},
      s.hidden_size);
  if (s.qkv_bias)
    p.qkv_bias_O = make.bias({part("self_attn.q_proj.bias", s.q_width()),
                              part("self_attn.k_proj.bias", s.kv_width()),
                              part("self_attn.v_proj.bias", s.kv_width())});
  if (s.qk_norm) {
    p.q_norm_D = make.norm(at + "self_attn.q_norm.weight", s.head_dim);
    p.k_norm_D = make.norm(at + "self_attn.k_norm.weight", s.head_dim);
  }
  p.output_HQ = make.matrix({part("self_attn.o_proj.weight", s.hidden_size)}, s.q_width());
  if (s.output_bias) p.output_bias_H = make.bias({part("self_attn.o_proj.bias", s.hidden_size)});
  p.mlp_norm_H = make.norm(at + "post_attention_layernorm.weight", s.hidden_size);
  p.gate_up_OH = make.matrix({part("mlp.gate_proj.weight", s.intermediate_size),
                              part("mlp.up_proj.weight", s.intermediate_size)},
                             s.hidden_size);
  p.down_HF = make.matrix({part("mlp.down_proj.weight", s.hidden_size)}, s.intermediate_size);
  if (s.mlp_bias) {
    p.gate_up_bias_O = make.bias({part("mlp.gate_proj.bias", s.intermediate_size),
                                  part("mlp.up_proj.bias", s.intermediate_size)});
    p.down_bias_H = make.bias({part("mlp.down_proj.bias", s.hidden_size)});
  }
  return p;
}

}  // namespace

void StageParameters::for_each(const std::function<void(Parameter&)>& visit) {
  const auto if_defined = [&](Parameter& p) {
    if (p.defined()) visit(p);
  };
  if_defined(embedding_VH);
  for (LayerParameters& l : layers)
    for (Parameter* p : {&l.attention_norm_H, &l.qkv_OH, &l.qkv_bias_O, &l.q_norm_D, &l.k_norm_D,
                         &l.output_HQ, &l.output_bias_H, &l.mlp_norm_H, &l.gate_up_OH,
                         &l.gate_up_bias_O, &l.down_HF, &l.down_bias_H})
      if_defined(*p);
  if_defined(final_norm_H);
  if_defined(head_VH);
}

StageParameters make_stage_parameters(const ModelShape& shape, Dtype dtype,
                                      const StageLayout& layout, StageId stage,
                                      std::uint64_t seed) {
  const bool first = stage.value() == 0;
  const bool last = stage.value() == layout.stages() - 1;
  const ParameterMaker make(shape, dtype, seed);
  const ParameterPart embedding{"model.embed_tokens.weight", 0, shape.vocab_size};
  StageParameters p;
  for (std::int32_t l = layout.layer_begin[stage.index()];
       l < layout.layer_begin[stage.index() + 1]; ++l)
    p.layers.push_back(make_layer(shape, make, l));
  if (first) p.embedding_VH = make.matrix({embedding}, shape.hidden_size);
  if (last) p.final_norm_H = make.norm("model.norm.weight", shape.hidden_size);
  if (last && shape.tie_embeddings && !first) {
    p.head_VH = make.matrix({embedding}, shape.hidden_size);
    p.head_VH.tied_copy = true;
  } else if (last && !shape.tie_embeddings) {
    p.head_VH = make.matrix({{"lm_head.weight", 0, shape.vocab_size}}, shape.hidden_size);
  }
  return p;
}

std::int64_t parameter_count(StageParameters& parameters) {
  std::int64_t count = 0;
  parameters.for_each([&](const Parameter& p) { count += p.tied_copy ? 0 : p.value.numel(); });
  return count;
}

}  // namespace slimpack
