#include "slimpack/packflow/bucket_maker.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "slimpack/packflow/tensor.h"

namespace slimpack {
namespace {

/// Parameters begin at multiples of so many elements: 64 bytes in fp32, a cache line.
constexpr std::int64_t kAlignment = 16;

/// FNV-1a: the same on every platform, unlike std::hash.
std::uint64_t hash_name(const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const unsigned char c : name) hash = (hash ^ c) * 0x100000001b3ULL;
  return hash;
}

std::int64_t count(const std::vector<std::int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

BucketMaker::BucketMaker(const ModelShape& shape, Dtype dtype, std::uint64_t seed,
                         std::size_t index, std::int32_t replicas, std::int32_t replica)
    : shape_(shape),
      dtype_(dtype),
      seed_(seed),
      index_(index),
      replicas_(replicas),
      replica_(replica) {}

void BucketMaker::add(Parameter& parameter, std::vector<ParameterPart> parts,
                      std::vector<std::int64_t> rest, First first) {
  std::int64_t rows = 0;
  for (ParameterPart& part : parts) {
    part.begin = rows;
    rows += part.rows;
  }
  parameter.parts = std::move(parts);
  parameter.bucket = index_;
  rest.insert(rest.begin(), rows);
  planned_.push_back({&parameter, std::move(rest), first});
}

void BucketMaker::add_matrix(Parameter& parameter, std::vector<ParameterPart> parts,
                             std::int64_t columns) {
  add(parameter, std::move(parts), {columns}, First::kNormal);
}

void BucketMaker::add_norm(Parameter& parameter, const std::string& name, std::int64_t width) {
  add(parameter, {{name, 0, width}}, {}, First::kOnes);
}

void BucketMaker::add_bias(Parameter& parameter, std::vector<ParameterPart> parts) {
  add(parameter, std::move(parts), {}, First::kZeros);
}

at::Tensor BucketMaker::first_values(const Planned& planned) const {
  const auto type = accumulate_type(dtype_);
  if (planned.first == First::kOnes) return at::ones(planned.sizes, type);
  if (planned.first == First::kZeros) return at::zeros(planned.sizes, type);
  at::Tensor values = at::empty(planned.sizes, type);
  for (const ParameterPart& part : planned.parameter->parts) {
    const auto generator = at::detail::createCPUGenerator(seed_ ^ hash_name(part.name));
    values.narrow(0, part.begin, part.rows).normal_(0.0, shape_.initializer_range, generator);
  }
  return values;
}

ParameterBucket BucketMaker::make() {
  // Matrices first: what is decayed then lies together.
  const auto decays = [](const Planned& p) { return p.first == First::kNormal; };
  std::stable_partition(planned_.begin(), planned_.end(), decays);
  std::int64_t size = 0;
  std::vector<ParameterBucket::Stretch> stretches;
  for (const Planned& p : planned_) {
    p.parameter->begin = size;
    size += (count(p.sizes) + kAlignment - 1) / kAlignment * kAlignment;
    const bool counted = !p.parameter->tied_copy;
    if (!stretches.empty() && stretches.back().decay == decays(p) &&
        stretches.back().counted == counted)
      stretches.back().end = size;
    else
      stretches.push_back({p.parameter->begin, size, decays(p), counted});
  }
  const Shard shard(size, replicas_, replica_);
  ParameterBucket bucket{at::zeros({size}, compute_type(dtype_)),
                         at::zeros({size}, accumulate_type(dtype_)),
                         std::move(stretches),
                         shard,
                         {},
                         at::zeros({shard.size()}, accumulate_type(dtype_)),
                         at::zeros({shard.size()}, accumulate_type(dtype_))};
  bucket.masters_S = dtype_ == Dtype::kBf16 ? at::zeros({shard.size()}, accumulate_type(dtype_))
                                            : shard.of(bucket.values_N);
  for (const Planned& p : planned_) {
    const auto view = [&](const at::Tensor& flat_N) {
      return flat_N.narrow(0, p.parameter->begin, count(p.sizes)).view(p.sizes);
    };
    p.parameter->value = view(bucket.values_N);
    p.parameter->gradient = view(bucket.gradients_N);
    assign(bucket, *p.parameter, 0, first_values(p));
  }
  return bucket;
}

}  // namespace slimpack
