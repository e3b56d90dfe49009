#include "slimpack/packflow/generate/generator.h"

#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/packflow/generate/stopwatch.h"

namespace slimpack {
namespace {

/// An answer as its tokens come.
class Answer {
 public:
  Answer(const GenerateSettings& settings, const TokenListener& listener, Generated& made)
      : settings_(settings), listener_(listener), made_(made) {}

  /// Whether more may follow.
  bool take(std::int64_t token) {
    if (std::ranges::find(settings_.stop_tokens, token) != settings_.stop_tokens.end())
      return end(GenerateEnd::kStopToken);
    made_.tokens.push_back(token);
    if (listener_ && !listener_(token)) return end(GenerateEnd::kListener);
    if (static_cast<std::int64_t>(made_.tokens.size()) == settings_.max_new_tokens)
      return end(GenerateEnd::kLength);
    return true;
  }
  bool take(std::span<const std::int64_t> tokens) {
    return std::ranges::all_of(tokens, [&](std::int64_t token) { return take(token); });
  }
  bool end(GenerateEnd end) {
    made_.end = end;
    return false;
  }

 private:
  const GenerateSettings& settings_;
  const TokenListener& listener_;
  Generated& made_;
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

std::vector<std::int64_t> Generator::next_tokens(std::int64_t token, Sampler& sampler) {
  if (speculator_) return speculator_->step(sequence_, token, sampler);
  return {sampler.next(sequence_.decode(token))};
}

Generated Generator::generate(std::span<const std::int64_t> prompt,
                              const GenerateSettings& settings, const TokenListener& listener) {
  settings.require_sound();
  Sampler sampler(settings.sampling);
  Generated made;
  made.prompt_tokens = static_cast<std::int64_t>(prompt.size());
  if (speculator_) speculator_->forget_figures();
  Stopwatch watch;
  PrefillSettings prefill{.slice = settings.prefill_slice};
  if (speculator_) prefill = speculator_->told(std::move(prefill), sequence_);
  std::vector<std::int64_t> next{sampler.next(
      sequence_.prefill(prompt, made.prompt_tokens + settings.max_new_tokens, prefill))};
  made.reused_tokens = sequence_.reused();
  made.first_token = watch.lap();
  Answer answer(settings, listener, made);
  while (answer.take(next)) {
    if (sequence_.cache().size() == model_->shape().max_positions.count()) {
      answer.end(GenerateEnd::kPositions);
      break;
    }
    next = next_tokens(next.back(), sampler);
  }
  made.decoding = watch.lap();
  if (speculator_) made.speculation = speculator_->figures();
  return made;
}

}  // namespace slimpack
