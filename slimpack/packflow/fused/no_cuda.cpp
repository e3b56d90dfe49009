// Takes the place of launchers.cu where the build found no nvcc.
#include "slimpack/packflow/fused/launchers.h"

namespace slimpack::fused {

const Launchers* cuda_launchers() {
  return nullptr;
}

}  // namespace slimpack::fused
