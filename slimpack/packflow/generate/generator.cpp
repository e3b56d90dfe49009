#include "slimpack/packflow/generate/generator.h"

#include <ATen/ops/log_softmax.h>

#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/base/progress.h"

namespace slimpack {
std::vector<std::int64_t> Generator::next_tokens(std::int64_t token, TokenSampler& sampler) {
  if (speculator_) return speculator_->step(sequence_, token, sampler);
  return {sampler.next(sequence_.decode(token))};
}

PrefillSettings Generator::prefill_settings(const GenerateSettings& settings) {
  PrefillSettings prefill{.slice = settings.prefill_slice};
  if (sparse_) {
    sparse_->forget_figures();
    prefill.sparse = &*sparse_;
  }
  return prefill;
}

double Generator::nats(std::span<const std::int64_t> text, std::int64_t from,
                       const GenerateSettings& settings) {
  settings.require_sound();
  sequence_.truncate(0);
  PrefillSettings prefill = prefill_settings(settings);
  double sum = 0;
  prefill.on_slice = [&](std::int64_t first, const RowStates& states) {
    // Logits of a block of rows at a time: those of a slice and a large vocabulary take gigabytes.
    constexpr std::int64_t kBlock = 128;
    const std::int64_t rows = states.hidden_TH.size(0);
    for (std::int64_t row = 0; row < rows; row += kBlock) {
      const std::int64_t count = std::min(kBlock, rows - row);
      const at::Tensor log_p_TV =
          at::log_softmax(model_->logits(states.hidden_TH.narrow(0, row, count)), -1, at::kDouble);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t next = first + row + i + 1;
        if (next < from || next >= static_cast<std::int64_t>(text.size())) continue;
        sum -= log_p_TV[i][text[static_cast<std::size_t>(next)]].item<double>();
      }
    }
  };
  (void)sequence_.prefill(text, static_cast<std::int64_t>(text.size()), prefill);
  return sum;
}

Generated Generator::generate(std::span<const std::int64_t> prompt,
                              const GenerateSettings& settings, const TokenListener& listener) {
  settings.require_sound();
  TokenSampler sampler(settings.sampling);
  Generated made;
  made.prompt_tokens = static_cast<std::int64_t>(prompt.size());
  if (speculator_) speculator_->forget_figures();
  Stopwatch watch;
  PrefillSettings prefill = prefill_settings(settings);
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
  if (sparse_) made.sparse = sparse_->figures();
  return made;
}

}  // namespace slimpack
