// Rows of activations in plain memory, and the types that decoding computes in.
//
// A decoded token passes some hundred small operators. Through libtorch each would cost more in
// dispatch than in work, so decoding works on pointers.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/BFloat16.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace slimpack {

/// Rows of at least `stride` elements. Does not own them.
template <class T>
struct RowsView {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t stride = 0;

  [[nodiscard]] T* row(std::int64_t i) const { return data + i * stride; }
  [[nodiscard]] RowsView<T> narrow(std::int64_t begin, std::int64_t count) const {
    return {row(begin), count, stride};
  }
  operator RowsView<const T>() const { return {data, rows, stride}; }
};

/// The rows of a contiguous tensor [T, …]. REQUIRES: its numbers are T's.
template <class T>
[[nodiscard]] RowsView<T> view_of(const at::Tensor& x) {
  return {x.mutable_data_ptr<T>(), x.size(0), x.size(1)};
}

/// Inputs of a product are padded with zeros to a multiple of this: what one AMX tile takes.
inline constexpr std::int64_t kInputPadding = 32;

[[nodiscard]] constexpr std::int64_t padded_to(std::int64_t count, std::int64_t multiple) {
  return (count + multiple - 1) / multiple * multiple;
}

/// Rows with memory of their own, their ends padded with zeros.
template <class T>
class RowBuffer {
 public:
  /// Makes room for that many rows of that width; elements are zeros or old ones.
  void resize(std::int64_t rows, std::int64_t width) {
    stride_ = padded_to(width, kInputPadding);
    rows_ = rows;
    if (static_cast<std::int64_t>(data_.size()) < rows * stride_)
      data_.resize(static_cast<std::size_t>(rows * stride_), T(0));
  }
  [[nodiscard]] RowsView<T> view() { return {data_.data(), rows_, stride_}; }

 private:
  std::vector<T> data_;
  std::int64_t rows_ = 0;
  std::int64_t stride_ = 0;
};

/// The type of sums, norms and the residual, by that of a product's inputs.
template <class Input>
struct SumOf {
  using Type = Input;
};
template <>
struct SumOf<c10::BFloat16> {
  using Type = float;
};
template <class Input>
using Sum = typename SumOf<Input>::Type;

/// Sixteen numbers that one or two instructions take at once, on whatever the processor has.
template <class T>
struct LanesOf;
template <>
struct LanesOf<float> {
  using Type [[gnu::vector_size(64), gnu::aligned(4), gnu::may_alias]] = float;
};
template <>
struct LanesOf<double> {
  using Type [[gnu::vector_size(128), gnu::aligned(8), gnu::may_alias]] = double;
};
template <>
struct LanesOf<std::uint32_t> {
  using Type [[gnu::vector_size(64), gnu::aligned(4), gnu::may_alias]] = std::uint32_t;
};
template <class T>
using Lanes = typename LanesOf<T>::Type;
inline constexpr std::int64_t kLanes = 16;

}  // namespace slimpack
