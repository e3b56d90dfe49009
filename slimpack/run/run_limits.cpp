#include "slimpack/run/run_limits.h"

#include <fmt/format.h>

#include <utility>

namespace slimpack {

RunLimits::RunLimits(const TrainConfig& train, std::int64_t first_step, Clock now,
                     std::string section)
    : steps_(train.steps),
      max_tokens_(train.max_tokens),
      max_seconds_(train.max_seconds),
      first_step_(first_step),
      section_(std::move(section)),
      now_(std::move(now)),
      start_(now_()) {}

bool RunLimits::allow_another(const RunProgress& done) const {
  return done.steps < steps_ && (max_tokens_ == Tokens(0) || done.tokens < max_tokens_);
}

bool RunLimits::out_of_time(const RunProgress& done) const {
  return max_seconds_ > 0 && done.steps > first_step_ &&
         to_seconds(now_() - start_) >= max_seconds_;
}

std::string RunLimits::token_limit_reached(const RunProgress& done) const {
  if (done.steps == steps_ || allow_another(done)) return "";
  return fmt::format("{}max_tokens = {} is reached", section_, max_tokens_.count());
}

std::string RunLimits::time_limit_reached() const {
  return fmt::format("{}max_seconds = {} is reached", section_, max_seconds_);
}

bool RunLimits::evaluation_due(const RunProgress& done, std::int64_t every) const {
  if (done.evaluated_steps == done.steps) return false;
  const bool ended = done.steps == steps_ || !done.limit.empty();
  return ended || done.steps == 0 || (every > 0 && done.steps % every == 0);
}

}  // namespace slimpack
