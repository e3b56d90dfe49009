#include "slimpack/packflow/parameters.h"

#include <algorithm>

#include "slimpack/packflow/bucket_maker.h"

namespace slimpack {
namespace {

void add_layer(BucketMaker& make, const ModelShape& s, std::int32_t index, LayerParameters& p) {
  const std::string at = "model.layers." + std::to_string(index) + ".";
  const auto part = [&](const char* name, std::int64_t rows) {
    return ParameterPart{at + name, 0, rows};
  };
  make.add_norm(p.attention_norm_H, at + "input_layernorm.weight", s.hidden_size);
  make.add_matrix(
      p.qkv_OH,
      {part("self_attn.q_proj.weight", s.q_width()), part("self_attn.k_proj.weight", s.kv_width()),
       part("self_attn.v_proj.weight", s.kv_width())},
      s.hidden_size);
  if (s.qkv_bias)
    make.add_bias(p.qkv_bias_O, {part("self_attn.q_proj.bias", s.q_width()),
                                 part("self_attn.k_proj.bias", s.kv_width()),
                                 part("self_attn.v_proj.bias", s.kv_width())});
  if (s.qk_norm) {
    make.add_norm(p.q_norm_D, at + "self_attn.q_norm.weight", s.head_dim);
    make.add_norm(p.k_norm_D, at + "self_attn.k_norm.weight", s.head_dim);
  }
  make.add_matrix(p.output_HQ, {part("self_attn.o_proj.weight", s.hidden_size)}, s.q_width());
  if (s.output_bias) make.add_bias(p.output_bias_H, {part("self_attn.o_proj.bias", s.hidden_size)});
  make.add_norm(p.mlp_norm_H, at + "post_attention_layernorm.weight", s.hidden_size);
  make.add_matrix(p.gate_up_OH,
                  {part("mlp.gate_proj.weight", s.intermediate_size),
                   part("mlp.up_proj.weight", s.intermediate_size)},
                  s.hidden_size);
  make.add_matrix(p.down_HF, {part("mlp.down_proj.weight", s.hidden_size)}, s.intermediate_size);
  if (s.mlp_bias) {
    make.add_bias(p.gate_up_bias_O, {part("mlp.gate_proj.bias", s.intermediate_size),
                                     part("mlp.up_proj.bias", s.intermediate_size)});
    make.add_bias(p.down_bias_H, {part("mlp.down_proj.bias", s.hidden_size)});
  }
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

void assign(ParameterBucket& bucket, const Parameter& parameter, std::int64_t row,
            const at::Tensor& rows) {
  parameter.value.narrow(0, row, rows.size(0)).copy_(rows);
  if (bucket.values_N.scalar_type() == bucket.masters_S.scalar_type()) return;
  const std::int64_t begin = parameter.begin + row * parameter.value.stride(0);
  const std::int64_t from = std::max(begin, bucket.shard.begin);
  const std::int64_t to = std::min(begin + rows.numel(), bucket.shard.end);
  if (from >= to) return;
  bucket.masters_S.narrow(0, from - bucket.shard.begin, to - from)
      .copy_(rows.contiguous().view(-1).narrow(0, from - begin, to - from));
}

StageParameters make_stage_parameters(const ModelShape& shape, Dtype dtype,
                                      const StageLayout& layout, const RankGrid& grid,
                                      const RankPlace& place, std::uint64_t seed) {
  const bool first = place.stage.value() == 0;
  const bool last = place.stage.value() == layout.stages() - 1;
  const ParameterPart embedding{"model.embed_tokens.weight", 0, shape.vocab_size};
  StageParameters p;
  const auto add_bucket = [&](const auto& add) {
    BucketMaker make(shape, dtype, seed, p.buckets.size(), grid.replicas, place.replica.value());
    add(make);
    p.buckets.push_back(make.make());
  };
  p.layers.resize(static_cast<std::size_t>(layout.layers(place.stage)));
  if (last) {
    p.head_VH.tied_copy = shape.tie_embeddings;
    const auto matrix =
        shape.tie_embeddings ? embedding : ParameterPart{"lm_head.weight", 0, shape.vocab_size};
    if (!(shape.tie_embeddings && first))
      add_bucket([&](BucketMaker& m) { m.add_matrix(p.head_VH, {matrix}, shape.hidden_size); });
    add_bucket([&](BucketMaker& m) {
      m.add_norm(p.final_norm_H, "model.norm.weight", shape.hidden_size);
    });
  }
  for (std::int32_t l = layout.layers(place.stage); l-- > 0;)
    add_bucket([&](BucketMaker& m) {
      add_layer(m, shape, layout.layer_begin[place.stage.index()] + l,
                p.layers[static_cast<std::size_t>(l)]);
    });
  if (first)
    add_bucket(
        [&](BucketMaker& m) { m.add_matrix(p.embedding_VH, {embedding}, shape.hidden_size); });
  return p;
}

std::int64_t parameter_count(StageParameters& parameters) {
  std::int64_t count = 0;
  parameters.for_each([&](const Parameter& p) { count += p.tied_copy ? 0 : p.value.numel(); });
  return count;
}

}  // namespace slimpack
