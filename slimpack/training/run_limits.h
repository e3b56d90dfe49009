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
  std::string limit = {};             ///< that has ended the run, RunLimits::reached(); or empty
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

  /// The limit that ends a run that has come so far, by tokens or else (`by_time`) by time:
  /// "train.max_tokens = 5000 is reached"; empty where none does.
  [[nodiscard]] std::string reached(const RunProgress& done, bool by_time) const;

 private:
  std::int64_t steps_;
  Tokens max_tokens_;
  double max_seconds_;
  std::int64_t first_step_;
  Clock now_;
  Nanos start_;
};

}  // namespace slimpack
