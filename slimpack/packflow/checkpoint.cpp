#include "slimpack/packflow/checkpoint.h"

#include <ATen/ops/cat.h>
#include <c10/core/InferenceMode.h>
#include <fmt/ranges.h>

#include <set>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"

namespace slimpack {
namespace {

/// Calls visit(stage's parameters, parameter, part) for every public tensor that a replica holds.
template <class Visit>
void for_each_part(Engine& engine, ReplicaId replica, Visit visit) {
  for (std::int32_t s = 0; s < engine.options().layout.stages(); ++s) {
    StageParameters& stage = engine.parameters({replica, StageId(s)});
    stage.for_each([&](Parameter& p) {
      for (const ParameterPart& part : p.parts) visit(stage, p, part);
    });
  }
}

/// The gradients of a bucket, of which every replica has its own shard.
at::Tensor joined_gradients(Engine& engine, StageId stage, std::size_t bucket) {
  std::vector<at::Tensor> shards;
  for (std::int32_t r = 0; r < engine.options().replicas; ++r) {
    const ParameterBucket& b = engine.parameters({ReplicaId(r), stage}).buckets[bucket];
    shards.push_back(b.shard.of(b.gradients_N));
  }
  return at::cat(shards);
}

}  // namespace

NamedTensors named_parameters(Engine& engine) {
  NamedTensors result;
  for_each_part(engine, ReplicaId(0),
                [&](StageParameters&, const Parameter& p, const ParameterPart& part) {
                  if (!p.tied_copy)
                    result.emplace(part.name, p.value.narrow(0, part.begin, part.rows).clone());
                });
  return result;
}

NamedTensors named_gradients(Engine& engine) {
  NamedTensors result;
  for (std::int32_t s = 0; s < engine.options().layout.stages(); ++s) {
    StageParameters& stage = engine.parameters({ReplicaId(0), StageId(s)});
    std::vector<at::Tensor> buckets;
    for (std::size_t b = 0; b < stage.buckets.size(); ++b)
      buckets.push_back(joined_gradients(engine, StageId(s), b));
    stage.for_each([&](const Parameter& p) {
      const at::Tensor gradient =
          buckets[p.bucket].narrow(0, p.begin, p.value.numel()).view(p.value.sizes());
      for (const ParameterPart& part : p.parts)
        if (!p.tied_copy)
          result.emplace(part.name, gradient.narrow(0, part.begin, part.rows).clone());
    });
  }
  return result;
}

void load_parameters(Engine& engine, const NamedTensors& tensors, const std::string& origin) {
  const c10::InferenceMode as_the_ranks;  // whose tensors are written here
  std::set<std::string> used;
  for (std::int32_t r = 0; r < engine.options().replicas; ++r)
    for_each_part(engine, ReplicaId(r),
                  [&](StageParameters& stage, const Parameter& p, const ParameterPart& part) {
                    const auto it = tensors.find(part.name);
                    if (it == tensors.end())
                      invalid_input("{}: tensor {} is missing; the checkpoint is of another model",
                                    origin, part.name);
                    const at::Tensor target = p.value.narrow(0, part.begin, part.rows);
                    if (it->second.sizes() != target.sizes())
                      invalid_input("{}: tensor {} has shape [{}], the model needs [{}]", origin,
                                    part.name, fmt::join(it->second.sizes(), ", "),
                                    fmt::join(target.sizes(), ", "));
                    assign(stage.buckets[p.bucket], p, part.begin, it->second);
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
