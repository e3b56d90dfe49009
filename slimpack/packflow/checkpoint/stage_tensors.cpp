#include "slimpack/packflow/checkpoint/stage_tensors.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "slimpack/packflow/device/tensor.h"

namespace slimpack {
namespace {

/// A bucket's elements at the ranks of replica 0; elsewhere undefined.
using BucketElements = std::function<at::Tensor(const ParameterBucket&)>;

/// The public tensor of a part at the first rank of those that hold its pieces, elsewhere
/// undefined. Neighbours may hold the same piece; the others stand in the order of the ranks.
at::Tensor whole_part(const ParameterPart& part, const at::Tensor& rows, Collective& holders) {
  const std::vector<at::Tensor> pieces = holders.gathering().gather(rows);
  std::vector<at::Tensor> distinct;
  for (std::size_t m = 0; m < pieces.size(); m += static_cast<std::size_t>(part.piece.copies))
    distinct.push_back(pieces[m]);
  if (distinct.size() < 2) return distinct.empty() ? at::Tensor() : distinct.front();
  return at::cat(distinct, part.piece.dimension);
}

void add_bucket(NamedTensors& result, const std::string& prefix, StageParameters& stage,
                std::size_t bucket, const at::Tensor& elements_N, Communicator& communicator) {
  stage.for_each([&](const Parameter& p) {
    if (p.bucket != bucket || p.tied_copy) return;
    const at::Tensor own = elements_N.narrow(0, p.begin, p.value.numel()).view(p.value.sizes());
    for (const ParameterPart& part : p.parts) {
      Collective& holders =
          part.piece.over_pipeline ? communicator.vocabulary() : communicator.tensor();
      const at::Tensor whole = whole_part(part, own.narrow(0, part.begin, part.rows), holders);
      if (holders.index() == 0) result.emplace(prefix + part.name, whole.cpu());
    }
  });
}

void add_whole(NamedTensors& result, const std::string& prefix, StageParameters& stage,
               Communicator& communicator, const BucketElements& elements) {
  for (std::size_t b = 0; b < stage.buckets.size(); ++b) {
    const at::Tensor elements_N = elements(stage.buckets[b]);
    if (elements_N.defined()) add_bucket(result, prefix, stage, b, elements_N, communicator);
  }
}

/// The tensor that the replicas' shards make together, at the first replica; elsewhere undefined.
at::Tensor joined_shards(const at::Tensor& shard_S, const Shard& own, Collective& data) {
  const std::vector<at::Tensor> begins =
      data.gathering().all_gather(at::full({1}, own.begin, at::kLong));
  const std::vector<at::Tensor> shards = data.gathering().gather(shard_S);
  if (shards.empty()) return {};
  std::vector<std::pair<std::int64_t, at::Tensor>> by_begin;
  for (std::size_t r = 0; r < shards.size(); ++r)
    by_begin.emplace_back(begins[r].item<std::int64_t>(), shards[r]);
  std::ranges::stable_sort(by_begin, {}, [](const auto& shard) { return shard.first; });
  std::vector<at::Tensor> ordered;
  for (const auto& [begin, shard] : by_begin) ordered.push_back(shard);
  return joined_rows(ordered);
}

}  // namespace

NamedTensors whole_values(StageParameters& stage, Communicator& communicator) {
  NamedTensors result;
  const bool first_replica = communicator.data().index() == 0;
  add_whole(result, "", stage, communicator, [&](const ParameterBucket& bucket) {
    return first_replica ? bucket.values_N : at::Tensor();
  });
  return result;
}

NamedTensors whole_gradients(StageParameters& stage, Communicator& communicator) {
  NamedTensors result;
  add_whole(result, "", stage, communicator, [&](const ParameterBucket& bucket) {
    return joined_shards(bucket.shard.of(bucket.gradients_N), bucket.shard, communicator.data());
  });
  return result;
}

NamedTensors whole_optimizer_state(StageParameters& stage, Dtype dtype,
                                   Communicator& communicator) {
  NamedTensors result;
  for (const OptimizerState& state : optimizer_states(dtype))
    add_whole(result, state.prefix, stage, communicator, [&](const ParameterBucket& bucket) {
      return joined_shards(bucket.*state.shard_S, bucket.shard, communicator.data());
    });
  return result;
}

std::vector<OptimizerState> optimizer_states(Dtype dtype) {
  std::vector<OptimizerState> states{{"first_moment/", &ParameterBucket::first_moments_S},
                                     {"second_moment/", &ParameterBucket::second_moments_S}};
  if (compute_type(dtype) != accumulate_type(dtype))
    states.push_back({"master/", &ParameterBucket::masters_S});
  return states;
}

}  // namespace slimpack
