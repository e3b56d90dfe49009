#include "slimpack/planner/order_bound.h"

#include <algorithm>

#include "slimpack/schedule/step_graph.h"

namespace slimpack {

Nanos order_bound(const Schedule& schedule, const TaskTimes& times) {
  StepGraph graph(std::span(&schedule, 1));
  graph.set_times(0, times);
  graph.run();
  Nanos reduced, ended;
  for (std::size_t p = 0; p < graph.ranks(); ++p) {
    const std::span<const StepNode> nodes = graph.rank(0, p);
    const Nanos ran = nodes.empty() ? Nanos(0) : Nanos(nodes.back().put);
    const Pass last = nodes.empty() ? Pass::kBackward : nodes.back().action.pass;
    reduced = std::max(reduced, ran + times.reduce_after(last, p));
    ended = std::max(ended, times.step_end[p]);
  }
  return reduced + ended;
}

}  // namespace slimpack
