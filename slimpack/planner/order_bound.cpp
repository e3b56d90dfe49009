#include "slimpack/planner/order_bound.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/sim/pipeline_barriers.h"

namespace slimpack {
namespace {

constexpr std::int64_t kUnknown = -1;

/// Sweeps over the ranks, there and back, until every action has run.
class OrderRun {
 public:
  OrderRun(const Schedule& schedule, const TaskTimes& times)
      : schedule_(schedule),
        times_(times),
        stages_(schedule.stages()),
        next_(schedule.ranks.size()),
        free_at_(schedule.ranks.size()),
        joint_(times, schedule.ranks.size()) {
    for (std::size_t s = 0; s < stages_; ++s) {
      forward_.emplace_back(times.forward[s].size(), kUnknown);
      backward_.emplace_back(times.backward[s].size(), kUnknown);
    }
  }

  Nanos run() {
    std::size_t left = 0;
    for (const auto& actions : schedule_.ranks) left += actions.size();
    const std::size_t ranks = schedule_.ranks.size();
    while (left > 0) {
      const std::size_t before = left;
      for (std::size_t r = 0; r < ranks; ++r) left -= advance(r);
      for (std::size_t r = ranks; r-- > 0;) left -= advance(r);
      SLIMPACK_CHECK(left < before, "deadlock with {} actions left", left);
    }
    Nanos reduced(0), ended(0);
    for (std::size_t r = 0; r < ranks; ++r) {
      const auto& actions = schedule_.ranks[r];
      const Pass last = actions.empty() ? Pass::kBackward : actions.back().pass;
      reduced = std::max(reduced, Nanos(free_at_[r]) + times_.reduce_after(last, r));
      ended = std::max(ended, times_.step_end[r]);
    }
    return reduced + ended;
  }

 private:
  std::size_t advance(std::size_t r) {
    const std::size_t first = next_[r];
    while (next_[r] < schedule_.ranks[r].size()) {
      const Action& action = schedule_.ranks[r][next_[r]];
      if (is_joint(action.pass) ? !run_together(r, action) : !run(free_at_[r], action)) break;
      ++next_[r];
    }
    return next_[r] - first;
  }

  /// Runs what all ranks run together. False until all are there.
  bool run_together(std::size_t r, const Action& action) {
    if (!joint_.join(r, action, free_at_[r])) return false;
    free_at_[r] = joint_.of(action.pass).end[action.pack.index()];
    return true;
  }

  /// False where the input is not known yet.
  bool run(std::int64_t& free_at, const Action& action) {
    const std::size_t s = action.stage.index();
    const std::size_t pack = action.pack.index();
    if (action.pass == Pass::kWeightGradient) {
      free_at += times_.weight_gradient[s][pack].count();
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
    free_at = std::max(free_at, arrival) + durations[s][pack].count();
    (back ? backward_ : forward_)[s][pack] = free_at;
    return true;
  }

  const Schedule& schedule_;
  const TaskTimes& times_;
  std::size_t stages_;
  std::vector<std::vector<std::int64_t>> forward_, backward_;  ///< ends, [stage][pack]
  std::vector<std::size_t> next_;                              ///< by rank
  std::vector<std::int64_t> free_at_;                          ///< by rank
  PipelineBarriers joint_;
};

}  // namespace

Nanos order_bound(const Schedule& schedule, const TaskTimes& times) {
  return OrderRun(schedule, times).run();
}

}  // namespace slimpack
