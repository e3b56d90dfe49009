#include "slimpack/base/error.h"

namespace slimpack {

void check_failed(const char* condition, const char* file, int line, const std::string& detail) {
  throw InternalError(fmt::format("check failed: {} at {}:{}{}{}", condition, file, line,
                                  detail.empty() ? "" : ": ", detail));
}

}  // namespace slimpack
