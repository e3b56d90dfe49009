#include "slimpack/planner/order_bound.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "slimpack/base/error.h"

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
        joined_(schedule.ranks.size()) {
    for (std::size_t j = 0; j < joint_.size(); ++j)
      joint_[j].assign(times.joint[j].size(), kUnknown);
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
    std::int64_t& end = joint_[joint_index(action.pass)][action.pack.index()];
    if (!joined_[r]) {
      joined_[r] = true;
      ready_ = std::max(ready_, free_at_[r]);
      if (++waiting_ == joined_.size()) {
        end = ready_ + times_.joint[joint_index(action.pass)][action.pack.index()].count();
        ready_ = 0;
        waiting_ = 0;
      }
    }
    if (end == kUnknown) return false;
    joined_[r] = false;
    free_at_[r] = end;
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
  std::vector<std::vector<std::int64_t>> forward_, backward_;         ///< ends, [stage][pack]
  std::vector<std::size_t> next_;                                     ///< by rank
  std::vector<std::int64_t> free_at_;                                 ///< by rank
  std::array<std::vector<std::int64_t>, kJointPasses.size()> joint_;  ///< ends, [E, H, G][pack]
  std::vector<bool> joined_;  ///< by rank: waits for the others
  std::size_t waiting_ = 0;   ///< ranks that do
  std::int64_t ready_ = 0;    ///< when the last of them did
};

}  // namespace

Nanos order_bound(const Schedule& schedule, const TaskTimes& times) {
  return OrderRun(schedule, times).run();
}

}  // namespace slimpack
