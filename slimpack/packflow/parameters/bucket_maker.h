// Bucket maker: lays parameters end to end, allocates their bucket and gives them first values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "slimpack/packflow/parameters/parameters.h"

namespace slimpack {

/// The rank whose parameters are made.
struct ParameterOwner {
  const Decoder& shape;
  Dtype dtype;
  std::uint64_t seed;
  RankGrid grid;
  RankPlace place;
  at::Device device;
};

/// A part of a parameter to be made: its name and piece.
struct NamedPiece {
  std::string name;
  TensorPiece piece;
};

/// Collects the parameters of one bucket; make() fills them and the bucket in.
class BucketMaker {
 public:
  /// Keeps a reference. `index` is that of the bucket in its stage.
  BucketMaker(const ParameterOwner& owner, std::size_t index) : owner_(owner), index_(index) {}

  /// The parameter stays where it is until make(). A piece of rows has `width` columns; one of
  /// columns has `width` rows.
  void add_matrix(Parameter& parameter, std::vector<NamedPiece> parts, std::int64_t width);
  void add_norm(Parameter& parameter, const std::string& name, std::int64_t width);
  void add_bias(Parameter& parameter, std::vector<NamedPiece> parts);

  /// Names and sizes of the whole tensors that the rank has pieces of.
  [[nodiscard]] std::map<std::string, std::vector<std::int64_t>> tensor_sizes() const;

  [[nodiscard]] ParameterBucket make();

 private:
  enum class First : std::uint8_t { kNormal, kOnes, kZeros };
  struct Planned {
    Parameter* parameter;
    std::vector<std::int64_t> sizes;
    First first;
  };
  void add(Parameter& parameter, std::vector<NamedPiece> parts, std::vector<std::int64_t> rest,
           First first);
  [[nodiscard]] at::Tensor first_values(const Planned& planned) const;
  /// Appends a stretch for each part of a parameter. A part joins the stretch before it where the
  /// two are alike.
  void add_stretches(const Planned& planned, std::int64_t end,
                     std::vector<ParameterBucket::Stretch>& stretches) const;

  const ParameterOwner& owner_;
  std::size_t index_;
  std::vector<Planned> planned_;
};

}  // namespace slimpack
