#include "slimpack/packflow/generate/generator.h"

#include <algorithm>
#include <chrono>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

/// Time since it was made or last asked.
class Stopwatch {
 public:
  Nanos lap() {
    const auto now = std::chrono::steady_clock::now();
    const Nanos lap(std::chrono::duration_cast<std::chrono::nanoseconds>(now - last_).count());
    last_ = now;
    return lap;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace

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

Generated Generator::generate(std::span<const std::int64_t> prompt,
                              const GenerateSettings& settings, const TokenListener& listener) {
  settings.require_sound();
  Sampler sampler(settings.sampling);
  Generated made;
  made.prompt_tokens = static_cast<std::int64_t>(prompt.size());
  Stopwatch watch;
  at::Tensor logits_V =
      sequence_.prefill(prompt, made.prompt_tokens + settings.max_new_tokens,
                        {.slice = settings.prefill_slice, .feature_layers = {}, .on_slice = {}});
  made.reused_tokens = sequence_.reused();
  const std::int64_t positions = model_->shape().max_positions.count();
  for (;;) {
    const std::int64_t token = sampler.next(logits_V);
    if (made.first_token == Nanos(0)) made.first_token = watch.lap();
    if (std::ranges::find(settings.stop_tokens, token) != settings.stop_tokens.end()) {
      made.end = GenerateEnd::kStopToken;
      break;
    }
    made.tokens.push_back(token);
    if (listener && !listener(token)) {
      made.end = GenerateEnd::kListener;
      break;
    }
    if (static_cast<std::int64_t>(made.tokens.size()) == settings.max_new_tokens) break;
    if (sequence_.cache().size() == positions) {
      made.end = GenerateEnd::kPositions;
      break;
    }
    logits_V = sequence_.decode(token);
  }
  made.decoding = watch.lap();
  return made;
}

}  // namespace slimpack
