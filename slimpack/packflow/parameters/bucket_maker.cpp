#include "slimpack/packflow/parameters/bucket_maker.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "slimpack/packflow/device/tensor.h"

namespace slimpack {
namespace {

/// Parameters begin at multiples of so many elements: of 64 bytes in bf16, the narrowest type. Sums
/// in products may depend on where a matrix begins, and torch's own tensors begin so.
constexpr std::int64_t kAlignment = 32;

/// FNV-1a: the same on every platform, unlike std::hash.
std::uint64_t hash_name(const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const unsigned char c : name) hash = (hash ^ c) * 0x100000001b3ULL;
  return hash;
}

std::int64_t count(const std::vector<std::int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

/// Sizes of the public tensor of which a parameter of `sizes` has a part.
std::vector<std::int64_t> whole_sizes(const ParameterPart& part, std::vector<std::int64_t> sizes) {
  sizes[0] = part.rows;
  sizes[static_cast<std::size_t>(part.piece.dimension)] = part.piece.whole;
  return sizes;
}

}  // namespace

void BucketMaker::add(Parameter& parameter, std::vector<NamedPiece> parts,
                      std::vector<std::int64_t> rest, First first) {
  std::int64_t rows = 0;
  for (NamedPiece& part : parts) {
    const std::int64_t count = part.piece.dimension == 0 ? part.piece.size : rest.front();
    if (part.piece.dimension == 1) rest = {part.piece.size};
    parameter.parts.push_back({std::move(part.name), part.piece, rows, count});
    rows += count;
  }
  parameter.bucket = index_;
  rest.insert(rest.begin(), rows);
  planned_.push_back({&parameter, std::move(rest), first});
}

void BucketMaker::add_matrix(Parameter& parameter, std::vector<NamedPiece> parts,
                             std::int64_t width) {
  add(parameter, std::move(parts), {width}, First::kNormal);
}

void BucketMaker::add_norm(Parameter& parameter, const std::string& name, std::int64_t width) {
  add(parameter, {{name, {0, 0, width, width, owner_.grid.tensor}}}, {}, First::kOnes);
}

void BucketMaker::add_bias(Parameter& parameter, std::vector<NamedPiece> parts) {
  add(parameter, std::move(parts), {}, First::kZeros);
}

std::map<std::string, std::vector<std::int64_t>> BucketMaker::tensor_sizes() const {
  std::map<std::string, std::vector<std::int64_t>> sizes;
  for (const Planned& planned : planned_)
    for (const ParameterPart& part : planned.parameter->parts)
      sizes.emplace(part.name, whole_sizes(part, planned.sizes));
  return sizes;
}

// On the CPU, so that they do not depend on the device.
at::Tensor BucketMaker::first_values(const Planned& planned) const {
  const auto type = accumulate_type(owner_.dtype);
  if (planned.first == First::kOnes) return at::ones(planned.sizes, type);
  if (planned.first == First::kZeros) return at::zeros(planned.sizes, type);
  at::Tensor values = at::empty(planned.sizes, type);
  for (const ParameterPart& part : planned.parameter->parts) {
    // The whole matrix is drawn, so that a weight does not depend on who holds it.
    const auto generator = at::detail::createCPUGenerator(owner_.seed ^ hash_name(part.name));
    const at::Tensor drawn = at::empty(whole_sizes(part, planned.sizes), type)
                                 .normal_(0.0, owner_.shape.initializer_range, generator);
    values.narrow(0, part.begin, part.rows).copy_(part.piece.of(drawn));
  }
  return values;
}

void BucketMaker::add_stretches(const Planned& planned, std::int64_t end,
                                std::vector<ParameterBucket::Stretch>& stretches) const {
  const Parameter& p = *planned.parameter;
  const std::int64_t row = count(planned.sizes) / planned.sizes.front();
  for (const ParameterPart& part : p.parts) {
    ParameterBucket::Stretch next{
        p.begin + part.begin * row, p.begin + (part.begin + part.rows) * row,
        planned.first == First::kNormal,
        !p.tied_copy && owner_.place.tensor % part.piece.copies == 0, part.piece.copies};
    if (&part == &p.parts.back()) next.end = end;
    if (!stretches.empty() && stretches.back().decay == next.decay &&
        stretches.back().counted == next.counted && stretches.back().copies == next.copies)
      stretches.back().end = next.end;
    else
      stretches.push_back(next);
  }
}

ParameterBucket BucketMaker::make() {
  // Matrices first: what is decayed then lies together.
  std::stable_partition(planned_.begin(), planned_.end(),
                        [](const Planned& p) { return p.first == First::kNormal; });
  std::int64_t size = 0;
  std::vector<ParameterBucket::Stretch> stretches;
  for (const Planned& p : planned_) {
    p.parameter->begin = size;
    size += (count(p.sizes) + kAlignment - 1) / kAlignment * kAlignment;
    add_stretches(p, size, stretches);
  }
  const auto wide = at::dtype(accumulate_type(owner_.dtype)).device(owner_.device);
  const Shard shard = replica_shard(size, owner_.grid, owner_.place.replica);
  ParameterBucket bucket{at::zeros({size}, wide.dtype(compute_type(owner_.dtype))),
                         at::zeros({size}, wide),
                         std::move(stretches),
                         shard,
                         {},
                         at::zeros({shard.size()}, wide),
                         at::zeros({shard.size()}, wide)};
  bucket.masters_S =
      owner_.dtype == Dtype::kBf16 ? at::zeros({shard.size()}, wide) : shard.of(bucket.values_N);
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
