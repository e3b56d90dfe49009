// Where a training run ends: after its steps, or at a limit of tokens or time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "slimpack/base/progress.h"
#include "slimpack/base/units.h"
#include "slimpack/spec/run_config.h"

namespace slimpack {

/// How far a run has come, from its first step on.
struct RunProgress {
  std::int64_t steps = 0;             ///< done
  Tokens tokens = Tokens(0);          ///< of these steps
  std::int64_t evaluated_steps = -1;  ///< done at the last evaluation; −1 = there was none
  std::string limit = {};             ///< that has ended the run, as RunLimits names it; or empty
};

class RunLimits {
 public:
  using Clock = std::function<Nanos()>;

  /// The run's time begins now. `first_step` is the first one of this start.
  RunLimits(const TrainConfig& train, std::int64_t first_step, Clock now = monotonic_now);

  /// Whether another step comes after these, unless time is over.
  [[nodiscard]] bool allow_another(const RunProgress& done) const;
  /// The first step of a start comes however little time there is.
  [[nodiscard]] bool out_of_time(const RunProgress& done) const;

  /// "train.max_tokens = 5000 is reached" where that ends the run; empty where it does not.
  [[nodiscard]] std::string token_limit_reached(const RunProgress& done) const;
  /// "train.max_seconds = 30 is reached". REQUIRES: out of time.
  [[nodiscard]] std::string time_limit_reached() const;

 private:
  std::int64_t steps_;
  Tokens max_tokens_;
  double max_seconds_;
  std::int64_t first_step_;
  Clock now_;
  Nanos start_;
};

}  // namespace slimpack
