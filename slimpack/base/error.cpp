#include "slimpack/base/error.h"

#include <algorithm>

namespace slimpack {

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text;
}

void check_failed(const char* condition, const char* file, int line, const std::string& detail) {
  throw InternalError(fmt::format("check failed: {} at {}:{}{}{}", condition, file, line,
                                  detail.empty() ? "" : ": ", detail));
}

}  // namespace slimpack
