// Bucket maker: lays parameters end to end, allocates their bucket and gives them first values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "slimpack/packflow/parameters.h"

namespace slimpack {

/// Collects the parameters of one bucket; make() fills them and the bucket in.
class BucketMaker {
 public:
  /// Keeps a reference. `index` is that of the bucket in its stage, `replica` one of `replicas`.
  BucketMaker(const ModelShape& shape, Dtype dtype, std::uint64_t seed, std::size_t index,
              std::int32_t replicas, std::int32_t replica);

  /// The parameter stays where it is until make(). `parts` have names and rows; their begin is set.
  void add_matrix(Parameter& parameter, std::vector<ParameterPart> parts, std::int64_t columns);
  void add_norm(Parameter& parameter, const std::string& name, std::int64_t width);
  void add_bias(Parameter& parameter, std::vector<ParameterPart> parts);

  [[nodiscard]] ParameterBucket make();

 private:
  enum class First : std::uint8_t { kNormal, kOnes, kZeros };
  struct Planned {
    Parameter* parameter;
    std::vector<std::int64_t> sizes;
    First first;
  };
  void add(Parameter& parameter, std::vector<ParameterPart> parts, std::vector<std::int64_t> rest,
           First first);
  [[nodiscard]] at::Tensor first_values(const Planned& planned) const;

  const ModelShape& shape_;
  Dtype dtype_;
  std::uint64_t seed_;
  std::size_t index_;
  std::int32_t replicas_;
  std::int32_t replica_;
  std::vector<Planned> planned_;
};

}  // namespace slimpack
