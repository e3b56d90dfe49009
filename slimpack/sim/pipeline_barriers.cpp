#include "slimpack/sim/pipeline_barriers.h"

#include <algorithm>

namespace slimpack {

PipelineBarriers::PipelineBarriers(const TaskTimes& times, std::size_t ranks)
    : durations_(times), joined_(ranks) {
  for (std::size_t j = 0; j < times_.size(); ++j)
    times_[j].start = times_[j].end = std::vector(times.joint[j].size(), kUnknown);
}

bool PipelineBarriers::join(std::size_t rank, const Action& action, std::int64_t ready) {
  const std::size_t j = joint_index(action.pass), pack = action.pack.index();
  Times& own = times_[j];
  if (!joined_[rank]) {
    joined_[rank] = true;
    last_ready_ = std::max(last_ready_, ready);
    if (++ready_ranks_ == joined_.size()) {
      own.start[pack] = last_ready_;
      own.end[pack] = last_ready_ + durations_.joint[j][pack].count();
      ready_ranks_ = 0;
      last_ready_ = 0;
    }
  }
  if (own.start[pack] == kUnknown) return false;
  joined_[rank] = false;
  return true;
}

}  // namespace slimpack
