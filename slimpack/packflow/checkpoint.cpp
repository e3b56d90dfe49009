#include "slimpack/packflow/checkpoint.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <fmt/ranges.h>

#include <set>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"

namespace slimpack {
namespace {

/// Calls visit(place, stage's parameters, parameter, part) for every public tensor that a rank of
/// the replica holds a piece of.
template <class Visit>
void for_each_part(Engine& engine, ReplicaId replica, Visit visit) {
  const RankGrid grid = engine.options().grid();
  for (std::int32_t s = 0; s < grid.stages; ++s)
    for (std::int32_t t = 0; t < grid.tensor; ++t) {
      const RankPlace place{replica, StageId(s), t};
      StageParameters& stage = engine.parameters(place);
      stage.for_each([&](Parameter& p) {
        for (const ParameterPart& part : p.parts) visit(place, stage, p, part);
      });
    }
}

/// Puts a rank's piece into the public tensor, which is made when its first piece comes.
void put_piece(NamedTensors& tensors, const ParameterPart& part, const at::Tensor& parameter) {
  const at::Tensor rows = parameter.narrow(0, part.begin, part.rows);
  const auto [it, is_new] = tensors.try_emplace(part.name);
  if (is_new) {
    std::vector<std::int64_t> sizes = rows.sizes().vec();
    sizes[static_cast<std::size_t>(part.piece.dimension)] = part.piece.whole;
    it->second = at::empty(sizes, rows.options());
  }
  part.piece.of(it->second).copy_(rows);
}

/// The gradients of a bucket, of which every replica has its own shard.
at::Tensor joined_gradients(Engine& engine, RankPlace place, std::size_t bucket) {
  std::vector<at::Tensor> shards;
  for (std::int32_t r = 0; r < engine.options().replicas; ++r) {
    place.replica = ReplicaId(r);
    const ParameterBucket& b = engine.parameters(place).buckets[bucket];
    shards.push_back(b.shard.of(b.gradients_N));
  }
  return at::cat(shards);
}

void load_part(const ParameterPart& part, const Parameter& p, ParameterBucket& bucket,
               const NamedTensors& tensors, const std::string& origin) {
  const auto it = tensors.find(part.name);
  if (it == tensors.end())
    invalid_input("{}: tensor {} is missing; the checkpoint is of another model", origin,
                  part.name);
  std::vector<std::int64_t> sizes = p.value.narrow(0, part.begin, part.rows).sizes().vec();
  sizes[static_cast<std::size_t>(part.piece.dimension)] = part.piece.whole;
  if (it->second.sizes() != sizes)
    invalid_input("{}: tensor {} has shape [{}], the model needs [{}]", origin, part.name,
                  fmt::join(it->second.sizes(), ", "), fmt::join(sizes, ", "));
  assign(bucket, p, part.begin, part.piece.of(it->second));
}

}  // namespace

NamedTensors named_parameters(Engine& engine) {
  NamedTensors result;
  for_each_part(
      engine, ReplicaId(0),
      [&](const RankPlace&, StageParameters&, const Parameter& p, const ParameterPart& part) {
        if (!p.tied_copy) put_piece(result, part, p.value);
      });
  return result;
}

NamedTensors named_gradients(Engine& engine) {
  NamedTensors result;
  for_each_part(
      engine, ReplicaId(0),
      [&](const RankPlace& place, StageParameters&, const Parameter& p, const ParameterPart& part) {
        if (p.tied_copy) return;
        const at::Tensor bucket_N = joined_gradients(engine, place, p.bucket);
        put_piece(result, part, bucket_N.narrow(0, p.begin, p.value.numel()).view(p.value.sizes()));
      });
  return result;
}

void load_parameters(Engine& engine, const NamedTensors& tensors, const std::string& origin) {
  const c10::InferenceMode as_the_ranks;  // whose tensors are written here
  std::set<std::string> used;
  for (std::int32_t r = 0; r < engine.options().replicas; ++r)
    for_each_part(engine, ReplicaId(r),
                  [&](const RankPlace&, StageParameters& stage, const Parameter& p,
                      const ParameterPart& part) {
                    load_part(part, p, stage.buckets[p.bucket], tensors, origin);
                    used.insert(part.name);
                  });
  for (const auto& [name, tensor] : tensors)
    if (!used.contains(name))
      invalid_input("{}: tensor {} has no place in the model; the checkpoint is of another model",
                    origin, name);
}

void save_checkpoint(Engine& engine, const std::filesystem::path& folder) {
  const EngineOptions& options = engine.options();
  write_safetensors(folder / "model.safetensors", named_parameters(engine));
  write_file(folder / "config.json",
             model_shape_to_json(options.shape, hugging_face_name(options.dtype)));
}

}  // namespace slimpack
