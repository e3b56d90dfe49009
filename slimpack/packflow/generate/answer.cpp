#include "slimpack/packflow/generate/answer.h"

#include <algorithm>
#include <limits>

#include "slimpack/base/error.h"

namespace slimpack {

void GenerateSettings::require_sound() const {
  sampling.require_sound();
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const auto require = [&](const char* name, std::int64_t value) {
    if (value < 1) invalid_input("{} is {}, it must be 1 or more", name, value);
    if (value > kMost) invalid_input("{} is {}, it must be at most {}", name, value, kMost);
  };
  require("max-new-tokens", max_new_tokens);
  require("prefill-slice", prefill_slice);
}

std::string_view to_string(GenerateEnd end) {
  switch (end) {
    case GenerateEnd::kLength:
      return "length";
    case GenerateEnd::kStopToken:
      return "stop_token";
    case GenerateEnd::kPositions:
      return "positions";
    case GenerateEnd::kListener:
      return "listener";
  }
  return "";
}

bool Answer::take(std::int64_t token) {
  if (std::ranges::find(settings_.stop_tokens, token) != settings_.stop_tokens.end())
    return end(GenerateEnd::kStopToken);
  made_.tokens.push_back(token);
  if (listener_ && !listener_(token)) return end(GenerateEnd::kListener);
  if (static_cast<std::int64_t>(made_.tokens.size()) == settings_.max_new_tokens)
    return end(GenerateEnd::kLength);
  return true;
}

bool Answer::take(std::span<const std::int64_t> tokens) {
  return std::ranges::all_of(tokens, [&](std::int64_t token) { return take(token); });
}

}  // namespace slimpack
