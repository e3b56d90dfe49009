#include "slimpack/planner/vocabulary_planning.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "slimpack/schedule/vocabulary_actions.h"

namespace slimpack {
namespace {

void add(std::vector<Nanos>& to, const std::vector<Nanos>& more) {
  for (std::size_t p = 0; p < to.size(); ++p) to[p] += more[p];
}

Nanos mean(const std::vector<Nanos>& times) {
  Nanos sum;
  for (const Nanos time : times) sum += time;
  return times.empty() ? sum : Nanos(sum.count() / static_cast<std::int64_t>(times.size()));
}

}  // namespace

void fold_vocabulary(TaskTimes& times) {
  const std::size_t ranks = times.ranks();
  Nanos forward;
  for (std::size_t r = 0; r < ranks; ++r) {
    for (const Pass pass : kJointPasses) {
      const std::vector<Nanos>& joint = times.joint[joint_index(pass)];
      if (runs_forward_packs(pass)) {
        add(times.forward[r], joint);
        continue;
      }
      add(times.backward[r], joint);
      if (!times.input_gradient.empty()) add(times.input_gradient[r], joint);
    }
    forward = std::max(forward, mean(times.forward[r]));
  }
  for (Nanos& transfer : times.backward_transfer) transfer += forward;
}

void fold_vocabulary(TaskBytes& bytes, std::size_t ranks) {
  const auto at_least = [](Bytes& peak, Bytes other) { peak = std::max(peak, other); };
  const auto joint = [&](Pass pass, std::size_t p) {
    return bytes.joint_transient[joint_index(pass)][p];
  };
  const std::size_t last = bytes.rows.size() - 1;
  for (std::size_t f = 0; f < bytes.forward_input.size(); ++f) {
    const Bytes row = bytes.forward_input[f];
    for (std::size_t r = 0; r < ranks; ++r)
      at_least(bytes.forward_transient[r][f], joint(Pass::kEmbedding, f));
    bytes.forward_transient[0][f] += row;  // the next one's, looked up before this one runs
    bytes.rows[last][f] += row;            // the head's input, then its gradient
  }
  for (std::size_t b = 0; b < bytes.backward_input.size(); ++b) {
    for (std::size_t r = 0; r < ranks; ++r)
      for (const Pass pass : {Pass::kHead, Pass::kEmbeddingGradient}) {
        at_least(bytes.backward_transient[r][b], joint(pass, b));
        if (!bytes.input_transient.empty()) at_least(bytes.input_transient[r][b], joint(pass, b));
      }
    bytes.backward_transient[0][b] += bytes.backward_input[b];  // the one before, for G
    if (!bytes.input_transient.empty()) bytes.input_transient[0][b] += bytes.backward_input[b];
  }
}

void put_vocabulary_in(RatedPlan& step) {
  if (!step.plan.layout.spread_vocabulary) return;
  step.schedules = with_vocabulary(step.plan, std::move(step.schedules));
  step.memory.clear();
}

}  // namespace slimpack
