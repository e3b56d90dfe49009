#include "slimpack/packflow/generate/batch_generator.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/progress.h"

namespace slimpack {
namespace {

/// A sequence and the answer that it has now.
class Slot {
 public:
  explicit Slot(LanguageModel& model) : model_(&model), sequence_(model) {}

  /// Runs a prompt. Result: whether its answer goes on after the first token.
  bool begin(const BatchPrompt& prompt, const GenerateSettings& settings, TokenListener listener,
             Generated& made) {
    SamplingSettings sampling = settings.sampling;
    sampling.seed = prompt.seed;
    sampler_.emplace(sampling);
    listener_ = std::move(listener);
    answer_.emplace(settings, listener_, made);
    made_ = &made;
    watch_ = Stopwatch();
    made.prompt_tokens = static_cast<std::int64_t>(prompt.tokens.size());
    const at::Tensor logits_V =
        sequence_.prefill(prompt.tokens, made.prompt_tokens + settings.max_new_tokens,
                          {.slice = settings.prefill_slice});
    made.reused_tokens = sequence_.reused();
    made.first_token = watch_.lap();
    return go_on(logits_V);
  }

  /// The token that the model runs for this answer in the next pass.
  [[nodiscard]] NextToken next() { return sequence_.next(token_); }

  /// After that pass. Result: whether the answer goes on after the token that its logits say.
  bool ran(const at::Tensor& logits_V) {
    sequence_.append(std::span(&token_, 1));
    return go_on(logits_V);
  }

 private:
  bool go_on(const at::Tensor& logits_V) {
    token_ = sampler_->next(logits_V);
    const bool has_position = sequence_.cache().size() < model_->shape().max_positions.count();
    const bool more =
        answer_->take(token_) && (has_position || answer_->end(GenerateEnd::kPositions));
    if (!more) made_->decoding = watch_.lap();
    return more;
  }

  LanguageModel* model_;
  CachedSequence sequence_;
  std::optional<TokenSampler> sampler_;
  TokenListener listener_;
  std::optional<Answer> answer_;
  Generated* made_ = nullptr;
  Stopwatch watch_;
  std::int64_t token_ = 0;  ///< the answer's last one
};

/// Runs a token of each answer. Result: those that go on; the others are idle now.
std::vector<Slot*> run_pass(LanguageModel& model, const std::vector<Slot*>& running,
                            std::vector<Slot*>& idle) {
  std::vector<NextToken> tokens;
  for (Slot* const slot : running) tokens.push_back(slot->next());
  const at::Tensor logits_TV = model.logits(model.run_batch(tokens));
  std::vector<Slot*> go_on;
  for (std::size_t i = 0; i < running.size(); ++i) {
    const bool more = running[i]->ran(logits_TV[static_cast<std::int64_t>(i)]);
    (more ? go_on : idle).push_back(running[i]);
  }
  return go_on;
}

}  // namespace

std::vector<Generated> generate_batch(LanguageModel& model, std::span<const BatchPrompt> prompts,
                                      std::int64_t batch, const GenerateSettings& settings,
                                      const BatchListener& listener) {
  settings.require_sound();
  if (batch < 1) invalid_input("batch is {}, it must be 1 or more", batch);
  std::vector<Generated> made(prompts.size());
  std::deque<Slot> slots;
  std::vector<Slot*> idle, running;
  for (std::size_t i = 0; i < std::min(static_cast<std::size_t>(batch), prompts.size()); ++i)
    idle.push_back(&slots.emplace_back(model));
  std::size_t next = 0;
  while (next < prompts.size() || !running.empty()) {
    while (next < prompts.size() && !idle.empty()) {
      const std::size_t prompt = next++;
      const auto told = [&listener, prompt](std::int64_t token) {
        return !listener || listener(prompt, token);
      };
      if (!idle.back()->begin(prompts[prompt], settings, told, made[prompt])) continue;
      running.push_back(idle.back());
      idle.pop_back();
    }
    if (!running.empty()) running = run_pass(model, running, idle);
  }
  return made;
}

}  // namespace slimpack
