#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <tuple>

#include "slimpack/schedule/activation_ledger.h"
#include "slimpack/sim/simulate.h"
#include "tests/sim/pass_of.h"
#include "tests/sim/random_case.h"
#include "tests/support/list_schedule.h"
#include "tests/support/simulate_packs.h"

namespace slimpack {
namespace {

using testing::least_memory;
using testing::list_schedule;
using testing::random_simulation_case;
using testing::simulate;
using testing::SimulationCase;

/// Events on a stage, in the order in which they count at one moment.
enum class Event : std::uint8_t { kEnd, kStart, kPut };

/// Peak of one stage from the drawn timeline: put times are the ends of the sender's action or of
/// its wait to send; the ledger gives the stores.
Bytes naive_peak(const SimulationCase& c, const Timeline& timeline, std::int32_t stage) {
  std::vector<std::tuple<Nanos, Event, Pass, PackId>> events;
  for (const Span& span : timeline.spans) {
    const auto pass = testing::pass_of(span.kind);
    if (!pass) continue;
    const bool backward = goes_back(*pass);
    if (span.rank == stage) {
      events.emplace_back(span.start, Event::kStart, *pass, span.pack);
      events.emplace_back(span.end, Event::kEnd, *pass, span.pack);
    }
    if (pass != Pass::kWeightGradient && span.rank == (backward ? stage + 1 : stage - 1)) {
      Nanos put = span.end;
      for (const Span& wait : timeline.spans)
        if (wait.rank == span.rank && wait.kind == SpanKind::kWaitSend && wait.start == span.end)
          put = wait.end;
      events.emplace_back(put, Event::kPut, *pass, span.pack);
    }
  }
  std::sort(events.begin(), events.end());
  const RowFlow flow = row_flow(c.packs());
  ActivationLedger ledger(flow, c.bytes, static_cast<std::size_t>(stage));
  Bytes waiting;
  Bytes transient;
  Bytes peak;
  for (const auto& [time, event, pass, pack] : events) {
    const bool forward = pass == Pass::kForward;
    const bool reads = goes_back(pass) ? stage + 1 < c.stages() : forward && stage > 0;
    const Bytes input = (forward ? c.bytes.forward_input : c.bytes.backward_input)[pack.index()];
    switch (event) {
      case Event::kPut:
        waiting += input;
        break;
      case Event::kStart:
        if (reads) waiting -= input;
        transient = ledger.peak_of({StageId(stage), pass, pack}) - ledger.live();
        break;
      case Event::kEnd:
        transient = Bytes(0);
        ledger.run({StageId(stage), pass, pack});
    }
    peak = std::max(peak, ledger.live() + transient + waiting);
  }
  return peak;
}

RC_GTEST_PROP(SimulatedMemory, AgreesWithANaiveReplayOfTheTimeline, (std::uint64_t seed)) {
  Rng rng(seed);
  SimulationCase c = random_simulation_case(rng);
  // Actions of no length leave no span to replay; with transfers of no length the order of a put
  // and the start that takes it could not be told from their times.
  for (auto* transfers : {&c.times.forward_transfer, &c.times.backward_transfer})
    for (Nanos& time : *transfers) time += Nanos(1);
  for (auto* table :
       {&c.times.forward, &c.times.backward, &c.times.input_gradient, &c.times.weight_gradient})
    for (auto& row : *table)
      for (Nanos& time : row) time += Nanos(1);
  const auto result = simulate(c.packs(), c.schedule, c.times, c.bytes, {c.slots, true});
  for (std::int32_t s = 0; s < c.stages(); ++s) {
    RC_ASSERT(result.peak_activation[StageId(s).index()] == naive_peak(c, result.timeline, s));
    Bytes highest;
    Bytes last;
    Nanos before;
    for (const MemorySample& sample : result.timeline.memory) {
      if (sample.rank != s) continue;
      RC_ASSERT(sample.time >= before);
      before = sample.time;
      last = sample.bytes;
      highest = std::max(highest, sample.bytes);
    }
    RC_ASSERT(highest == result.peak_activation[StageId(s).index()]);
    RC_ASSERT(last == Bytes(0));
  }
}

RC_GTEST_PROP(SimulatedMemory, StaysWithinTheCapWhateverTheTiming, (std::uint64_t seed)) {
  Rng rng(seed);
  const SimulationCase c = random_simulation_case(rng);
  std::vector<Bytes> cap = least_memory(c.packs(), c.bytes, c.slots);
  for (Bytes& bytes : cap) bytes += Bytes(static_cast<std::int64_t>(rng.below(100)));
  const auto schedule = list_schedule(c.packs(), c.times, c.bytes, {cap, c.slots});
  RC_ASSERT(schedule.has_value());
  for (int trial = 0; trial < 4; ++trial) {
    const TaskTimes times =
        trial == 0 ? c.times : testing::random_times(rng, c.packs(), c.stages());
    const auto result = simulate(c.packs(), *schedule, times, c.bytes, {c.slots, false});
    for (std::size_t s = 0; s < cap.size(); ++s) RC_ASSERT(result.peak_activation[s] <= cap[s]);
  }
}

}  // namespace
}  // namespace slimpack
