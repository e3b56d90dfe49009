// Checks a simulated step against the graph of its dependencies.
#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <optional>
#include <span>

#include "tests/sim/pass_of.h"
#include "tests/sim/random_step_case.h"
#include "tests/support/wait_graph.h"

namespace slimpack::testing {

/// Every action of the timeline starts when the graph says. `lowered`: as for WaitGraph.
inline void expect_starts(const StepCase& step, const Timeline& timeline,
                          std::span<const LoweredSchedule> lowered = {}) {
  const WaitGraph graph(step.plan, step.schedules, step.times, step.slots, lowered);
  RC_ASSERT(!graph.deadlocks());
  const auto ranks = static_cast<std::int32_t>(step.ranks());
  for (const Span& span : timeline.spans) {
    const std::optional<Pass> pass = pass_of(span.kind);
    if (!pass) continue;
    RC_ASSERT(span.start.count() == graph.start(static_cast<std::size_t>(span.rank / ranks),
                                                {span.stage, *pass, span.pack}));
  }
}

}  // namespace slimpack::testing
