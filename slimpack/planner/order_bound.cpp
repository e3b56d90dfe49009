#include "slimpack/planner/order_bound.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

constexpr std::int64_t kUnknown = -1;

/// Sweeps over the stages, there and back, until every action has run.
class OrderRun {
 public:
  OrderRun(const Schedule& schedule, const TaskTimes& times)
      : schedule_(schedule), times_(times), stages_(schedule.stages.size()) {
    for (std::size_t s = 0; s < stages_; ++s) {
      forward_.emplace_back(times.forward[s].size(), kUnknown);
      backward_.emplace_back(times.backward[s].size(), kUnknown);
    }
    next_.resize(stages_, 0);
    free_at_.resize(stages_, 0);
  }

  Nanos run() {
    std::size_t left = 0;
    for (const auto& actions : schedule_.stages) left += actions.size();
    while (left > 0) {
      const std::size_t before = left;
      for (std::size_t s = 0; s < stages_; ++s) left -= advance(s);
      for (std::size_t s = stages_; s-- > 0;) left -= advance(s);
      SLIMPACK_CHECK(left < before, "deadlock with {} actions left", left);
    }
    Nanos reduced(0), ended(0);
    for (std::size_t s = 0; s < stages_; ++s) {
      const auto& actions = schedule_.stages[s];
      const Pass last = actions.empty() ? Pass::kBackward : actions.back().pass;
      reduced = std::max(reduced, Nanos(free_at_[s]) + times_.reduce_after(last, s));
      ended = std::max(ended, times_.step_end[s]);
    }
    return reduced + ended;
  }

 private:
  std::size_t advance(std::size_t s) {
    const std::size_t first = next_[s];
    while (next_[s] < schedule_.stages[s].size() && run(s, schedule_.stages[s][next_[s]]))
      ++next_[s];
    return next_[s] - first;
  }

  /// False where the input is not known yet.
  bool run(std::size_t s, const Action& action) {
    const std::size_t pack = action.pack.index();
    if (action.pass == Pass::kWeightGradient) {
      free_at_[s] += times_.weight_gradient[s][pack].count();
      return true;
    }
    const bool back = goes_back(action.pass);
    std::int64_t arrival = 0;
    if (back ? s + 1 < stages_ : s > 0) {
      const std::int64_t sent = back ? backward_[s + 1][pack] : forward_[s - 1][pack];
      if (sent == kUnknown) return false;
      arrival =
          sent + (back ? times_.backward_transfer[pack] : times_.forward_transfer[pack]).count();
    }
    const auto& durations = action.pass == Pass::kForward    ? times_.forward
                            : action.pass == Pass::kBackward ? times_.backward
                                                             : times_.input_gradient;
    free_at_[s] = std::max(free_at_[s], arrival) + durations[s][pack].count();
    (back ? backward_ : forward_)[s][pack] = free_at_[s];
    return true;
  }

  const Schedule& schedule_;
  const TaskTimes& times_;
  std::size_t stages_;
  std::vector<std::vector<std::int64_t>> forward_, backward_;  ///< ends, [stage][pack]
  std::vector<std::size_t> next_;
  std::vector<std::int64_t> free_at_;
};

}  // namespace

Nanos order_bound(const Schedule& schedule, const TaskTimes& times) {
  return OrderRun(schedule, times).run();
}

}  // namespace slimpack
