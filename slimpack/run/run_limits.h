// When a training run ends: after its steps, or at a limit of tokens or time; and when it
// evaluates.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "slimpack/base/progress.h"
#include "slimpack/base/units.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// The progress of a run since its first step, over all starts.
struct RunProgress {
  std::int64_t steps = 0;             ///< done
  Tokens tokens = Tokens(0);          ///< of these steps
  std::int64_t evaluated_steps = -1;  ///< steps done at the last evaluation; −1 = there was none
  std::string limit = {};             ///< what RunLimits says once a limit has ended the run
};

class RunLimits {
 public:
  using Clock = std::function<Nanos()>;

  /// The run's time begins now. `first_step`: the first step of this start. `section`: what the
  /// names of limits begin with.
  RunLimits(const TrainConfig& train, std::int64_t first_step, Clock now = monotonic_now,
            std::string section = "train.");

  /// Whether steps and tokens allow another step. Does not look at the time.
  [[nodiscard]] bool allow_another(const RunProgress& done) const;
  /// Whether time is over. Never before the first step of a start has run.
  [[nodiscard]] bool out_of_time(const RunProgress& done) const;

  /// "train.max_tokens = 5000 is reached" where that ends the run; empty where it does not.
  [[nodiscard]] std::string token_limit_reached(const RunProgress& done) const;
  /// "train.max_seconds = 30 is reached". REQUIRES: out of time.
  [[nodiscard]] std::string time_limit_reached() const;

  /// Whether the loss has to be evaluated before another step: before the first step, after every
  /// `every` steps (0 = no further ones), and where the run ends, unless that was done.
  [[nodiscard]] bool evaluation_due(const RunProgress& done, std::int64_t every) const;

 private:
  std::int64_t steps_;
  Tokens max_tokens_;
  double max_seconds_;
  std::int64_t first_step_;
  std::string section_;
  Clock now_;
  Nanos start_;
};

}  // namespace slimpack
