#include "slimpack/spec/dtype.h"

#include "slimpack/base/error.h"

namespace slimpack {

std::string_view to_string(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFp32:
      return "fp32";
    case Dtype::kBf16:
      return "bf16";
    case Dtype::kFp64:
      return "fp64";
  }
  SLIMPACK_CHECK(false, "dtype {}", static_cast<int>(dtype));
  return {};
}

std::string_view hugging_face_name(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFp32:
      return "float32";
    case Dtype::kBf16:
      return "bfloat16";
    case Dtype::kFp64:
      return "float64";
  }
  SLIMPACK_CHECK(false, "dtype {}", static_cast<int>(dtype));
  return {};
}

}  // namespace slimpack
