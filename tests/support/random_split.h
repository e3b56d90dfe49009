// Splits some of the backward actions of correct schedules into input and weight gradients.
#pragma once

#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include "slimpack/base/random.h"
#include "slimpack/plan/plan.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack::testing {

/// Weight gradients run at random moments after their input gradients. All replicas of a merged
/// pack split it on the same stages.
inline void split_some(Rng& rng, const StepPlan& plan, std::vector<Schedule>& schedules) {
  // A pack is known by its stage, its number of replicas and its first slice.
  std::map<std::tuple<StageId, std::int32_t, SequenceId, Tokens>, bool> is_split;
  for (std::size_t r = 0; r < schedules.size(); ++r)
    for (auto& actions : schedules[r].ranks) {
      std::vector<Action> out;
      std::deque<Action> waiting;
      for (Action action : actions) {
        if (action.pass == Pass::kBackward) {
          const MicroPack& pack = plan.replicas[r].packs.backward[action.pack.index()];
          const Slice& first = pack.slices.front();
          const auto [at, is_new] = is_split.try_emplace(
              {action.stage, pack.replicas, first.sequence, first.begin}, rng.below(2) == 0);
          if (at->second) {
            action.pass = Pass::kInputGradient;
            waiting.push_back({action.stage, Pass::kWeightGradient, action.pack});
          }
        }
        out.push_back(action);
        while (!waiting.empty() && rng.below(3) == 0) {
          out.push_back(waiting.front());
          waiting.pop_front();
        }
      }
      out.insert(out.end(), waiting.begin(), waiting.end());
      actions = std::move(out);
    }
}

}  // namespace slimpack::testing
