#include "slimpack/packflow/checkpoint/model_tensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/packflow/checkpoint/hugging_face_folder.h"
#include "slimpack/packflow/checkpoint/stage_tensors.h"
#include "slimpack/packflow/device/tensor.h"

namespace slimpack {
namespace {

using Sizes = std::map<std::string, std::vector<std::int64_t>>;

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";

/// The tensors as the bytes of a file, which can be gathered.
at::Tensor bytes_of(const NamedTensors& tensors) {
  std::vector<std::byte> bytes;
  stream_safetensors(tensors, [&](std::span<const std::byte> next) {
    bytes.insert(bytes.end(), next.begin(), next.end());
  });
  return byte_tensor(bytes);
}

NamedTensors tensors_of(const at::Tensor& bytes_B) {
  const auto* const data = static_cast<const std::byte*>(bytes_B.const_data_ptr());
  return parse_safetensors({data, bytes_B.nbytes()}, std::make_shared<at::Tensor>(bytes_B),
                           "tensors of a rank");
}

/// assign() in blocks that fit into a processor's cache, so that looking at them costs no second
/// read. Returns whether all numbers are finite.
bool assign_finite(ParameterBucket& bucket, const Parameter& parameter, std::int64_t row,
                   const at::Tensor& rows) {
  constexpr std::int64_t kBlock = std::int64_t{1} << 20;  // bytes
  const std::int64_t total = rows.size(0);
  const std::int64_t row_bytes =
      static_cast<std::int64_t>(rows.nbytes()) / std::max<std::int64_t>(total, 1);
  const std::int64_t most =
      std::max<std::int64_t>(1, kBlock / std::max<std::int64_t>(row_bytes, 1));
  bool finite = true;
  for (std::int64_t begin = 0; begin < total; begin += most) {
    const at::Tensor block = rows.narrow(0, begin, std::min(most, total - begin));
    assign(bucket, parameter, row + begin, block);
    finite = finite && !number_not_finite(block);
  }
  return finite;
}

using StageTensors = NamedTensors (*)(StageParameters&, Communicator&);

NamedTensors tensors_of_all_stages(Engine& engine, StageTensors of_stage) {
  NamedTensors all;
  engine.on_ranks([&](std::int32_t rank, Communicator& communicator, RankClock&) {
    NamedTensors own;
    for (StageParameters& stage : engine.parameters(rank)) own.merge(of_stage(stage, communicator));
    const at::Tensor own_B = bytes_of(own);
    for (const at::Tensor& bytes_B : communicator.world().gathering().gather(own_B))  // at rank 0
      all.merge(tensors_of(bytes_B));
  });
  return all;
}

void require_tensor(const NamedTensors& tensors, const std::string& name,
                    const std::vector<std::int64_t>& sizes, const std::string& origin) {
  const auto it = tensors.find(name);
  if (it == tensors.end())
    invalid_input("{}: tensor {} is missing; {}", origin, name,
                  name == kHead ? "where it is tied, config.json says so by tie_word_embeddings"
                                : "the checkpoint is of another model");
  if (it->second.sizes() != sizes)
    invalid_input("{}: tensor {} has shape [{}], the model needs [{}]", origin, name,
                  fmt::join(it->second.sizes(), ", "), fmt::join(sizes, ", "));
  if (!it->second.is_floating_point())
    invalid_input("{}: tensor {} has type {}, the model needs floating-point numbers", origin, name,
                  at::toString(it->second.scalar_type()));
}

void require_tensors(const NamedTensors& tensors, const Sizes& needed, const std::string& origin) {
  for (const auto& [name, sizes] : needed) require_tensor(tensors, name, sizes, origin);
  for (const auto& [name, tensor] : tensors)
    if (!needed.contains(name))
      invalid_input("{}: tensor {} has no place in the model; the checkpoint is of another model",
                    origin, name);
}

/// A model that was saved without its head (transformers' LlamaModel) leaves "model." out of its
/// names.
NamedTensors with_prefix(NamedTensors tensors, const Sizes& needed) {
  NamedTensors named;
  for (auto& [name, tensor] : tensors) {
    const std::string whole = "model." + name;
    const bool short_name =
        !needed.contains(name) && needed.contains(whole) && !tensors.contains(whole);
    named.emplace(short_name ? whole : name, std::move(tensor));
  }
  return named;
}

/// Leaves one of the two names of a tied matrix, of which a file may have either or both.
void join_tied(NamedTensors& tensors, const std::string& origin) {
  const auto head = tensors.find(kHead), embedding = tensors.find(kEmbedding);
  if (head == tensors.end()) return;
  if (embedding == tensors.end()) {
    tensors.emplace(kEmbedding, head->second);
  } else if (!head->second.equal(embedding->second)) {
    invalid_input(
        "{}: tensor {} differs from {}, which the model ties; set tie_word_embeddings to false",
        origin, kHead, kEmbedding);
  }
  tensors.erase(head);
}

/// Calls assign(bucket, parameter, row, rows) for every part of the rank's parameters with its
/// piece of the tensor of that name.
template <class Assign>
void for_each_piece(std::span<StageParameters> stages, const NamedTensors& tensors,
                    const std::string& prefix, Assign assign_rows) {
  for (StageParameters& stage : stages)
    stage.for_each([&](const Parameter& p) {
      for (const ParameterPart& part : p.parts)
        assign_rows(stage.buckets[p.bucket], p, part.begin,
                    part.piece.of(tensors.at(prefix + part.name)));
    });
}

}  // namespace

NamedTensors named_parameters(Engine& engine) {
  return tensors_of_all_stages(engine, whole_values);
}

NamedTensors named_gradients(Engine& engine) {
  return tensors_of_all_stages(engine, whole_gradients);
}

NamedTensors sound_tensors(NamedTensors tensors, const Decoder& shape, const std::string& origin) {
  std::erase_if(tensors, [](const auto& entry) {
    return entry.first.ends_with(".rotary_emb.inv_freq");  // follows from rope_theta
  });
  const Sizes needed = tensor_sizes(shape);
  tensors = with_prefix(std::move(tensors), needed);
  if (shape.tie_embeddings) join_tied(tensors, origin);
  require_tensors(tensors, needed, origin);
  return tensors;
}

bool load_parameters(Engine& engine, const NamedTensors& given, const std::string& origin) {
  const NamedTensors tensors = sound_tensors(given, engine.options().shape, origin);
  bool all = true;
  engine.on_ranks([&](std::int32_t rank, Communicator& communicator, RankClock&) {
    std::byte bad{0};
    for_each_piece(
        engine.parameters(rank), tensors, "",
        [&](ParameterBucket& bucket, const Parameter& p, std::int64_t row, const at::Tensor& rows) {
          if (!assign_finite(bucket, p, row, rows)) bad = std::byte{1};
        });
    const at::Tensor own_B = byte_tensor({&bad, 1});
    for (const at::Tensor& bad_B : communicator.world().gathering().gather(own_B))  // at rank 0
      if (bad_B.item<std::uint8_t>() != 0) all = false;
  });
  return all;
}

void load_optimizer_state(Engine& engine, const NamedTensors& tensors, const std::string& origin) {
  const std::vector<OptimizerState> states = optimizer_states(engine.options().dtype);
  Sizes needed;
  for (const auto& [name, sizes] : tensor_sizes(engine.options().shape))
    for (const OptimizerState& state : states) needed.emplace(state.prefix + name, sizes);
  require_tensors(tensors, needed, origin);
  engine.on_ranks([&](std::int32_t rank, Communicator&, RankClock&) {
    for (const OptimizerState& state : states)
      for_each_piece(engine.parameters(rank), tensors, state.prefix,
                     [&](ParameterBucket& bucket, const Parameter& p, std::int64_t row,
                         const at::Tensor& rows) {
                       assign_state(bucket, bucket.*state.shard_S, p, row, rows);
                     });
  });
}

namespace fs = std::filesystem;

void load_checkpoint(Engine& engine, const Checkpoint& checkpoint) {
  const std::string origin = checkpoint.folder.string();
  load_parameters(engine, read_model_tensors(checkpoint.folder), origin);
  NamedTensors optimizer;
  for (const CheckpointFile& file : checkpoint.state.files)
    if (file.name.starts_with(kOptimizerStem))
      optimizer.merge(read_safetensors(checkpoint.folder / file.name));
  load_optimizer_state(engine, optimizer, origin);
}

bool load_hugging_face_model(Engine& engine, const fs::path& folder) {
  const Decoder& ours = engine.options().shape;
  const Decoder theirs = read_decoder(folder / kConfigFile);
  const auto require_same = [&](const char* field, const auto& their, const auto& our) {
    if (their != our)
      invalid_input("{}: {} is {}, the run's model.config has {}; give that model's config.json",
                    (folder / kConfigFile).string(), field, their, our);
  };
  // The sizes of the tensors do not tell these fields. The run may choose longer contexts, another
  // rope_theta and another rope scaling.
  require_same("model_type", to_string(theirs.family), to_string(ours.family));
  const LayerShape &their_layer = theirs.kinds.front(), &our_layer = ours.kinds.front();
  require_same("num_attention_heads", their_layer.num_heads, our_layer.num_heads);
  require_same("num_key_value_heads", their_layer.num_kv_heads, our_layer.num_kv_heads);
  require_same("num_experts_per_tok", their_layer.experts_per_token, our_layer.experts_per_token);
  require_same("norm_topk_prob", their_layer.norm_topk_prob, our_layer.norm_topk_prob);
  require_same("rms_norm_eps", theirs.rms_norm_eps, ours.rms_norm_eps);
  return load_parameters(engine, read_model_tensors(folder), folder.string());
}

}  // namespace slimpack
