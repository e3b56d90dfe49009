// A planned step and a made-up measurement of it.
#pragma once

#include "slimpack/report/measured_step.h"
#include "tests/planner/small_step.h"

namespace slimpack::testing {

/// A step on two stages and two replicas with its costs and limits. Deterministic.
inline PlanFile planned_file() {
  PlanRequest request;
  for (const std::int64_t length : {900, 40, 300, 1200, 64, 128, 500, 2048})
    request.lengths.emplace_back(length);
  request.pp = 2;
  request.dp = 2;
  request.context = Tokens(2048);
  request.memory_cap = Bytes(1 << 30);
  PlanFile file{{}, small_cost(2), limits_of(request.job(small_cost(2)), request.choices())};
  file.step = *plan_step(request, file.cost).step;
  return file;
}

/// A measured step in which everything takes twice as long as predicted. Sequence q is of document
/// 100 + q and begins at its token 7.
inline MeasuredStep measured_twice_as_long(const PlanFile& file) {
  MeasuredStep step{
      .step = 3, .device = "cpu", .planner = "slimpack", .sequences = {}, .timeline = {}};
  for (std::size_t q = 0; q < file.step.plan.lengths.size(); ++q)
    step.sequences.push_back({100 + q, Tokens(7), file.step.plan.lengths[q]});
  step.timeline = predict(file.step, file.cost).timeline;
  step.timeline.origin = "measured";
  for (Span& span : step.timeline.spans) {
    span.start = span.start * 2;
    span.end = span.end * 2;
  }
  for (MemorySample& sample : step.timeline.memory) sample.time = sample.time * 2;
  return step;
}

}  // namespace slimpack::testing
