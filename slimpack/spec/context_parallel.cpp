#include "slimpack/spec/context_parallel.h"

#include "slimpack/base/error.h"

namespace slimpack {

std::string_view to_string(CpCommType type) {
  switch (type) {
    case CpCommType::kDirect:
      return "direct";
    case CpCommType::kP2P:
      return "p2p";
    case CpCommType::kAllGather:
      return "all_gather";
  }
  SLIMPACK_CHECK(false, "cp_comm_type {}", static_cast<int>(type));
  return {};
}

}  // namespace slimpack
