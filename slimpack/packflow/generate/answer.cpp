#include "slimpack/packflow/generate/answer.h"

#include <algorithm>

#include "slimpack/base/error.h"

namespace slimpack {

void GenerateSettings::require_sound() const {
  sampling.require_sound();
  if (max_new_tokens < 1)
    invalid_input("max-new-tokens is {}, it must be 1 or more", max_new_tokens);
  if (prefill_slice < 1) invalid_input("prefill-slice is {}, it must be 1 or more", prefill_slice);
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
