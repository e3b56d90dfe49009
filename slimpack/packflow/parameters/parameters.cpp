#include "slimpack/packflow/parameters/parameters.h"

#include <algorithm>

#include "slimpack/packflow/parameters/bucket_maker.h"

namespace slimpack {
namespace {

/// The rank's words: the vocabulary is split as evenly as it goes, over the ranks of its stage or
/// of its pipeline.
TensorPiece vocabulary_piece(std::int64_t vocab_size, const RankGrid& grid,
                             const RankPlace& place) {
  const bool spread = grid.spread_vocabulary;
  const Shard words(vocab_size, spread ? grid.pipeline * grid.tensor : grid.tensor,
                    spread ? place.pipeline * grid.tensor + place.tensor : place.tensor);
  return {0, words.begin, words.size(), vocab_size, 1, spread};
}

/// The pieces of a layer's tensors that a rank holds: heads and columns of the MLP in equal parts.
class TensorPieces {
 public:
  TensorPieces(const LayerShape& layer, std::int32_t tensor_ranks, std::int32_t index)
      : shape_(layer),
        part_(tensor_parallel_part(layer, tensor_ranks)),
        tensor_(tensor_ranks),
        index_(index) {}

  /// A piece along `dimension`, which has the queries' width. The functions below have the width of
  /// keys or values and that of the MLP.
  [[nodiscard]] TensorPiece queries(std::int64_t dimension) const {
    return {dimension, index_ * part_.q_width(), part_.q_width(), shape_.q_width()};
  }
  [[nodiscard]] TensorPiece keys() const {
    // Where there are more ranks than heads, neighbours share one.
    const auto copies =
        static_cast<std::int32_t>(std::max<std::int64_t>(1, tensor_ / shape_.num_kv_heads));
    return {0, index_ / copies * part_.k_width(), part_.k_width(), shape_.k_width(), copies};
  }
  [[nodiscard]] TensorPiece ffn(std::int64_t dimension) const {
    return {dimension, index_ * part_.dense_width, part_.dense_width, shape_.dense_width};
  }
  /// The whole hidden size: every rank has all of it.
  [[nodiscard]] TensorPiece hidden() const {
    return {0, 0, shape_.hidden_size, shape_.hidden_size, tensor_};
  }

 private:
  const LayerShape& shape_;
  LayerShape part_;
  std::int32_t tensor_;
  std::int32_t index_;
};

/// Public names inside a layer.
struct ExpertNames {
  const char* block;
  const char *gate, *up, *down;  ///< of an expert
};

ExpertNames expert_names(ModelFamily family) {
  if (family == ModelFamily::kMixtral) return {"block_sparse_moe.", "w1", "w3", "w2"};
  return {"mlp.", "gate_proj", "up_proj", "down_proj"};
}

void add_experts(BucketMaker& make, const Decoder& model, const LayerShape& s,
                 const std::string& at, LayerParameters& p) {
  const ExpertNames names = expert_names(model.family);
  const std::int64_t h = s.hidden_size, f = s.expert_width;
  std::vector<NamedPiece> gate_up, down;
  for (std::int64_t e = 0; e < s.experts; ++e) {
    const std::string expert = at + names.block + "experts." + std::to_string(e) + ".";
    gate_up.push_back({expert + names.gate + ".weight", {0, 0, f, f}});
    gate_up.push_back({expert + names.up + ".weight", {0, 0, f, f}});
    down.push_back({expert + names.down + ".weight", {0, 0, h, h}});
  }
  make.add_matrix(p.router_EH, {{at + names.block + "gate.weight", {0, 0, s.experts, s.experts}}},
                  h);
  make.add_matrix(p.gate_up_OH, std::move(gate_up), h);
  make.add_matrix(p.down_HF, std::move(down), f);
}

void add_layer(BucketMaker& make, const ParameterOwner& owner, std::int32_t index,
               LayerParameters& p) {
  const LayerShape& s = owner.shape.layer(static_cast<std::size_t>(index));
  const TensorPieces pieces(s, owner.grid.tensor, owner.place.tensor);
  const std::string at = "model.layers." + std::to_string(index) + ".";
  const auto part = [&](const char* name, const TensorPiece& piece) {
    return NamedPiece{at + name, piece};
  };
  make.add_norm(p.attention_norm_H, at + "input_layernorm.weight", s.hidden_size);
  make.add_matrix(p.qkv_OH,
                  {part("self_attn.q_proj.weight", pieces.queries(0)),
                   part("self_attn.k_proj.weight", pieces.keys()),
                   part("self_attn.v_proj.weight", pieces.keys())},
                  s.hidden_size);
  if (s.qkv_bias)
    make.add_bias(p.qkv_bias_O, {part("self_attn.q_proj.bias", pieces.queries(0)),
                                 part("self_attn.k_proj.bias", pieces.keys()),
                                 part("self_attn.v_proj.bias", pieces.keys())});
  if (s.has_qk_norm()) {
    const bool whole = s.qk_norm == QkNorm::kWhole;
    make.add_norm(p.q_norm_D, at + "self_attn.q_norm.weight", whole ? s.q_width() : s.head_dim);
    make.add_norm(p.k_norm_D, at + "self_attn.k_norm.weight", whole ? s.k_width() : s.head_dim);
  }
  make.add_matrix(p.output_HQ, {part("self_attn.o_proj.weight", pieces.queries(1))}, s.hidden_size);
  if (s.output_bias)
    make.add_bias(p.output_bias_H, {part("self_attn.o_proj.bias", pieces.hidden())});
  make.add_norm(p.mlp_norm_H, at + "post_attention_layernorm.weight", s.hidden_size);
  if (s.experts > 0) return add_experts(make, owner.shape, s, at, p);
  make.add_matrix(
      p.gate_up_OH,
      {part("mlp.gate_proj.weight", pieces.ffn(0)), part("mlp.up_proj.weight", pieces.ffn(0))},
      s.hidden_size);
  make.add_matrix(p.down_HF, {part("mlp.down_proj.weight", pieces.ffn(1))}, s.hidden_size);
  if (s.mlp_bias) {
    make.add_bias(p.gate_up_bias_O, {part("mlp.gate_proj.bias", pieces.ffn(0)),
                                     part("mlp.up_proj.bias", pieces.ffn(0))});
    make.add_bias(p.down_bias_H, {part("mlp.down_proj.bias", pieces.hidden())});
  }
}

using AddParameters = std::function<void(BucketMaker&)>;

/// Calls visit(add) for every bucket of a stage, in the order of StageParameters::buckets; `add`
/// puts the bucket's parameters, which are members of `p`, into a maker.
void for_each_bucket(const ParameterOwner& owner, const StageLayout& layout, StageId stage,
                     StageParameters& p, const std::function<void(const AddParameters&)>& visit) {
  const Decoder& shape = owner.shape;
  const bool spread = owner.grid.spread_vocabulary;
  const bool last = stage.value() == layout.stages() - 1;
  const bool embeds = stage.value() < (spread ? layout.ranks() : 1);
  const bool shares_matrix = shape.tie_embeddings && (spread || embeds);
  const bool heads = stage.value() >= layout.stages() - (spread ? layout.ranks() : 1);
  const TensorPiece words = vocabulary_piece(shape.vocab_size, owner.grid, owner.place);
  const NamedPiece embedding{"model.embed_tokens.weight", words};
  p.layers.resize(static_cast<std::size_t>(layout.layers(stage)));
  if (heads && !shares_matrix) {
    p.head_VH.tied_copy = shape.tie_embeddings;
    const NamedPiece matrix =
        shape.tie_embeddings ? embedding : NamedPiece{"lm_head.weight", words};
    visit([&](BucketMaker& m) { m.add_matrix(p.head_VH, {matrix}, shape.hidden_size()); });
  }
  if (last)
    visit([&](BucketMaker& m) {
      m.add_norm(p.final_norm_H, "model.norm.weight", shape.hidden_size());
    });
  for (std::int32_t l = layout.layers(stage); l-- > 0;)
    visit([&](BucketMaker& m) {
      add_layer(m, owner, layout.layer_begin[stage.index()] + l,
                p.layers[static_cast<std::size_t>(l)]);
    });
  if (embeds)
    visit([&](BucketMaker& m) { m.add_matrix(p.embedding_VH, {embedding}, shape.hidden_size()); });
}

}  // namespace

void StageParameters::for_each(const std::function<void(Parameter&)>& visit) {
  const auto if_defined = [&](Parameter& p) {
    if (p.defined()) visit(p);
  };
  if_defined(embedding_VH);
  for (LayerParameters& l : layers)
    for (Parameter* p : {&l.attention_norm_H, &l.qkv_OH, &l.qkv_bias_O, &l.q_norm_D, &l.k_norm_D,
                         &l.output_HQ, &l.output_bias_H, &l.mlp_norm_H, &l.router_EH, &l.gate_up_OH,
                         &l.gate_up_bias_O, &l.down_HF, &l.down_bias_H})
      if_defined(*p);
  if_defined(final_norm_H);
  if_defined(head_VH);
}

void assign(ParameterBucket& bucket, const Parameter& parameter, std::int64_t row,
            const at::Tensor& rows) {
  parameter.value.narrow(0, row, rows.size(0)).copy_(rows);
  if (bucket.values_N.scalar_type() != bucket.masters_S.scalar_type())
    assign_state(bucket, bucket.masters_S, parameter, row, rows);
}

void assign_state(const ParameterBucket& bucket, at::Tensor& state_S, const Parameter& parameter,
                  std::int64_t row, const at::Tensor& rows) {
  const std::int64_t begin = parameter.begin + row * parameter.value.stride(0);
  const std::int64_t from = std::max(begin, bucket.shard.begin);
  const std::int64_t to = std::min(begin + rows.numel(), bucket.shard.end);
  if (from >= to) return;
  state_S.narrow(0, from - bucket.shard.begin, to - from)
      .copy_(rows.contiguous().view(-1).narrow(0, from - begin, to - from));
}

StageParameters make_stage_parameters(const Decoder& shape, Dtype dtype, const StageLayout& layout,
                                      const RankGrid& grid, const RankPlace& place, StageId stage,
                                      std::uint64_t seed, at::Device device) {
  const ParameterOwner owner{shape, dtype, seed, grid, place, device};
  StageParameters p;
  for_each_bucket(owner, layout, stage, p, [&](const AddParameters& add) {
    BucketMaker make(owner, p.buckets.size());
    add(make);
    p.buckets.push_back(make.make());
  });
  return p;
}

std::map<std::string, std::vector<std::int64_t>> tensor_sizes(const Decoder& shape) {
  const StageLayout layout{{0, static_cast<std::int32_t>(shape.num_layers())}};
  const ParameterOwner owner{shape, Dtype::kFp32, 0, {}, {}, at::Device(at::kCPU)};
  std::map<std::string, std::vector<std::int64_t>> sizes;
  StageParameters planned;
  for_each_bucket(owner, layout, StageId(0), planned, [&](const AddParameters& add) {
    BucketMaker make(owner, 0);
    add(make);
    sizes.merge(make.tensor_sizes());
  });
  return sizes;
}

std::int64_t parameter_count(StageParameters& parameters) {
  std::int64_t count = 0;
  parameters.for_each([&](const Parameter& p) {
    for (const ParameterPart& part : p.parts)
      if (!p.tied_copy)
        count += p.value.numel() / p.value.size(0) * part.rows / part.piece.size * part.piece.whole;
  });
  return count;
}

}  // namespace slimpack
