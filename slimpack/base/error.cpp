#include "slimpack/base/error.h"

#include <algorithm>

namespace slimpack {
namespace {

/// The first character of a failure's text; the message follows.
constexpr char kBadInput = 'i';
constexpr char kFailedRun = 'r';

}  // namespace

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text;
}

std::string failure_text(const std::exception& failure) {
  const bool bad_input = dynamic_cast<const InvalidInput*>(&failure) != nullptr;
  return (bad_input ? kBadInput : kFailedRun) + std::string(failure.what());
}

void throw_failure(std::string_view text, std::string_view addition) {
  SLIMPACK_CHECK(!text.empty());
  if (text.front() == kBadInput) invalid_input("{}{}", text.substr(1), addition);
  run_failed("{}{}", text.substr(1), addition);
}

void check_failed(const char* condition, const char* file, int line, const std::string& detail) {
  throw InternalError(fmt::format("check failed: {} at {}:{}{}{}", condition, file, line,
                                  detail.empty() ? "" : ": ", detail));
}

}  // namespace slimpack
