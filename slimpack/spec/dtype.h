// Number formats of a run.
#pragma once

#include <cstdint>
#include <string_view>

namespace slimpack {

/// kBf16 keeps fp32 master weights and accumulates gradients in fp32; kFp64 is for checks.
enum class Dtype : std::uint8_t { kFp32, kBf16, kFp64 };

/// "fp32", "bf16", "fp64".
[[nodiscard]] std::string_view to_string(Dtype dtype);
/// The name that Hugging Face uses: "float32", "bfloat16", "float64".
[[nodiscard]] std::string_view hugging_face_name(Dtype dtype);
/// Bytes of one number of an activation or weight.
[[nodiscard]] constexpr std::int64_t element_bytes(Dtype d) {
  return d == Dtype::kFp64 ? 8 : d == Dtype::kFp32 ? 4 : 2;
}
/// Bytes of one number that accumulates: gradients, dK/dV, log-sum-exp.
[[nodiscard]] constexpr std::int64_t accumulator_bytes(Dtype d) {
  return d == Dtype::kFp64 ? 8 : 4;
}

}  // namespace slimpack
