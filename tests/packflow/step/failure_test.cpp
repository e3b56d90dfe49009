// A rank that throws, wherever it does, ends the step on all ranks with its cause, soon; the engine
// can run other steps then.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "slimpack/packflow/checkpoint/model_tensors.h"
#include "tests/packflow/step/faults.h"
#include "tests/packflow/support/random_run.h"
#include "tests/support/packed_plan.h"

namespace slimpack {
namespace {

using namespace std::chrono_literals;

using testing::Fault;
using testing::FaultPoint;
using testing::Faults;
using testing::FaultyAllocator;
using testing::MergedAt;
using testing::random_step;
using testing::RandomRun;

/// Ends the process when what it watches hangs, which no assertion could.
class Watchdog {
 public:
  explicit Watchdog(const FaultPoint& point)
      : thread_([text = std::string(Fault(point).what())](const std::stop_token& stop) {
          std::mutex mutex;
          std::condition_variable_any never;
          std::unique_lock lock(mutex);
          never.wait_for(lock, stop, 30s, [] { return false; });
          if (stop.stop_requested()) return;
          std::fprintf(stderr, "the step hangs after a failure of %s\n", text.c_str());
          std::abort();
        }) {}

 private:
  std::jthread thread_;
};

struct Grid {
  std::int32_t pipeline;
  std::size_t replicas;
  std::int32_t tensor;
  ClockKind clock;
  std::int32_t stages_per_rank = 1;
  bool spread_vocabulary = false;
  bool exchange_context = false;
};

/// A step of a tied model on the grid; backwards may be split, and MicroPacks merged.
RandomRun run_on(Rng& rng, const Grid& grid) {
  SequenceLengths lengths;
  for (int q = 0; q < 6; ++q) lengths.emplace_back(static_cast<std::int64_t>(4 + rng.below(20)));
  StepPlan plan = random_step(rng, lengths, grid.replicas, grid.pipeline * grid.stages_per_rank,
                              MergedAt::kAnywhere);
  plan.layout.placement = StagePlacement::looped(grid.pipeline, grid.stages_per_rank);
  plan.layout.spread_vocabulary = grid.spread_vocabulary;
  RandomRun run(rng, std::move(plan), grid.tensor);
  run.shape.tie_embeddings = true;
  if (grid.exchange_context) run.exchange_context();
  return run;
}

/// An engine for a step, with faults, and what the step gives without any.
class FaultyJob {
 public:
  FaultyJob(const RandomRun& run, ClockKind clock)
      : run_(run), options_(run.options(Dtype::kFp32)), faults_(options_.grid(), run.schedules) {
    options_.clock = clock;
    Engine sound(options_);
    expected_ = run_.run(sound);
    faults_.put_into(options_);
    engine_ = std::make_unique<Engine>(options_);
  }

  [[nodiscard]] Faults& faults() { return faults_; }
  [[nodiscard]] RankGrid grid() const { return options_.grid(); }

  /// The places at which a step with an update can fail, counted without any fault.
  [[nodiscard]] Faults::Counts places() {
    Engine engine(options_);
    faults_.arm({});
    const FaultyAllocator allocator(faults_);
    static_cast<void>(run_.run(engine, OptimizerUpdate{config_, 0}));
    return faults_.counts();
  }

  /// Runs the step with faults at these points; one of them must be its end, within a second. A
  /// busy machine may keep any thread from running for longer; it does not do so every time.
  void expect_end_by(
      const std::vector<FaultPoint>& points, const std::function<void()>& first = [] {}) {
    Faults::Clock::duration took = end_by(points, first);
    for (int again = 0; again < 4 && took > 1s && !::testing::Test::HasFailure(); ++again) {
      expect_soundness();
      took = std::min(took, end_by(points, first));
    }
    EXPECT_LT(took, 1s) << Fault(points.front()).what();
  }

  /// The next step is the one that an engine without a failure would run. An engine that failed in
  /// its update is replaced.
  void expect_soundness() {
    if (faults_.updating()) {
      engine_ = std::make_unique<Engine>(options_);
      return;
    }
    faults_.arm({});
    const StepResult next = run_.run(*engine_);
    EXPECT_EQ(next.loss, expected_.loss);
    EXPECT_EQ(next.gradient_norm, expected_.gradient_norm);
  }

  /// The update is sound as well: moments are untouched, too.
  void expect_sound_update() {
    EngineOptions options = run_.options(Dtype::kFp32);
    Engine sound(options);
    faults_.arm({});
    for (Engine* engine : {&sound, engine_.get()})
      for (std::int64_t s = 0; s < 2; ++s)
        static_cast<void>(run_.run(*engine, OptimizerUpdate{config_, s}));
    const NamedTensors expected = named_parameters(sound), actual = named_parameters(*engine_);
    for (const auto& [name, tensor] : expected) EXPECT_TRUE(tensor.equal(actual.at(name))) << name;
  }

 private:
  /// Runs the step with these faults. Returns how long it went on after the last.
  Faults::Clock::duration end_by(const std::vector<FaultPoint>& points,
                                 const std::function<void()>& first) {
    faults_.arm(points, first);
    std::optional<FaultPoint> cause;
    {
      const Watchdog watchdog(points.front());
      const FaultyAllocator allocator(faults_);
      try {
        static_cast<void>(run_.run(*engine_, OptimizerUpdate{config_, 0}));
      } catch (const Fault& fault) {
        cause = fault.point;
      }
    }
    const auto took = Faults::Clock::now() - faults_.last_thrown();
    if (!cause) {
      ADD_FAILURE() << Fault(points.front()).what() << ": the step went on";
      return {};
    }
    EXPECT_NE(std::find(points.begin(), points.end(), *cause), points.end());
    return took;
  }

  const RandomRun& run_;
  TrainConfig config_;
  EngineOptions options_;
  Faults faults_;
  StepResult expected_;
  std::unique_ptr<Engine> engine_;
};

/// A point of every place, on any rank that comes there at any time.
std::vector<FaultPoint> sample(Rng& rng, const Faults::Counts& counts) {
  std::map<std::string, std::vector<std::pair<std::int32_t, int>>> ranks_of;
  for (const auto& [at, count] : counts) ranks_of[at.first].emplace_back(at.second, count);
  std::vector<FaultPoint> points;
  for (const auto& [place, ranks] : ranks_of) {
    const auto& [rank, count] = ranks[rng.below(ranks.size())];
    points.push_back(
        {rank, place, 1 + static_cast<int>(rng.below(static_cast<std::uint64_t>(count)))});
  }
  return points;
}

/// Every place of a step with all kinds of parallelism.
std::set<std::string> all_places() {
  std::set<std::string> places{
      "F",        "B",    "I",    "W",    "E",    "H",    "G",    "in set-up",
      "in F",     "in B", "in I", "in W", "in E", "in H", "in G", "in reduction",
      "in update"};
  for (const char* call : {"send forward",
                           "send backward",
                           "receive forward",
                           "receive backward",
                           "context sum",
                           "context start_shift",
                           "context finish_shift",
                           "tensor all_gather",
                           "tensor all_gather_rows",
                           "tensor reduce_scatter_rows",
                           "data start_reduce_scatter",
                           "data await_reduce_scatter",
                           "data finish_reduce_scatter",
                           "data all_gather_shards",
                           "vocabulary sum",
                           "vocabulary all_gather",
                           "pipeline all_gather_rows",
                           "pipeline reduce_scatter_rows",
                           "pipeline lend",
                           "pipeline give",
                           "pipeline finish_receive",
                           "tied all_reduce",
                           "world sum",
                           "world all_gather",
                           "world gather"})
    for (const char* when : {"before ", "after "}) places.insert(std::string(when) + call);
  return places;
}

TEST(Failure, AnywhereOnAnyRankEndsTheStepWithItsCauseAndTheEngineLivesOn) {
  Rng rng(1);
  std::set<std::string> seen;
  for (const Grid& grid :
       {Grid{2, 2, 2, ClockKind::kVirtual}, Grid{1, 4, 2, ClockKind::kWall},
        Grid{4, 2, 1, ClockKind::kWall}, Grid{2, 1, 4, ClockKind::kVirtual},
        Grid{2, 2, 1, ClockKind::kWall, 2}, Grid{2, 1, 1, ClockKind::kVirtual, 1, true},
        Grid{2, 1, 1, ClockKind::kWall, 1, false, true}}) {
    const RandomRun run = run_on(rng, grid);
    FaultyJob job(run, grid.clock);
    for (const FaultPoint& point : sample(rng, job.places())) {
      seen.insert(point.place);
      job.expect_end_by({point});
      if (HasFailure()) return;
      job.expect_soundness();
    }
    job.expect_sound_update();
  }
  EXPECT_EQ(seen, all_places());
}

// The clock is the wall's: in virtual time ranks take turns, and never all of them run at once.
TEST(Failure, OfAllRanksAtOnceEndsTheStepWithOneOfTheCauses) {
  Rng rng(2);
  const RandomRun run = run_on(rng, {2, 2, 2, ClockKind::kWall});
  FaultyJob job(run, ClockKind::kWall);
  const std::int32_t ranks = job.grid().ranks();
  // Places that every rank comes to whatever the others do there.
  for (const char* place : {"in set-up", "before world sum"}) {
    std::vector<FaultPoint> points;
    for (std::int32_t r = 0; r < ranks; ++r) points.push_back({r, place, 1});
    for (int i = 0; i < 20; ++i) {
      std::barrier all(ranks);
      job.expect_end_by(points, [&all] { all.arrive_and_wait(); });
      if (HasFailure()) return;
    }
    job.expect_soundness();
  }
}

TEST(Failure, WakesThoseWhoHaveWaitedForLong) {
  Rng rng(3);
  const RandomRun run = run_on(rng, {2, 2, 2, ClockKind::kVirtual});
  FaultyJob job(run, ClockKind::kVirtual);
  const Faults::Counts places = job.places();
  for (const char* place : {"before send forward", "before receive backward", "before context sum",
                            "before tensor all_gather", "before data start_reduce_scatter",
                            "before tied all_reduce", "before world sum"}) {
    const auto at = places.lower_bound({place, 0});
    ASSERT_TRUE(at != places.end() && at->first.first == place) << place;
    job.expect_end_by({{at->first.second, place, 1}}, [] { std::this_thread::sleep_for(200ms); });
    if (HasFailure()) return;
  }
  job.expect_soundness();
}

TEST(Failure, IsNoticedByAReplicaThatWaitsForNobodyBeforeItsNextAction) {
  // Two replicas of one stage run 12 whole sequences each; whoever is first fails. The other would
  // begin 24 actions. One of them is enough to notice; the failing thread has the time of half of
  // them, 1.2 s, to say so.
  const SequenceLengths lengths(24, Tokens(8));
  testing::SmallStep step = testing::empty_step(testing::small_shape(1), Dtype::kFp32, 1, lengths);
  step.plan.replicas.assign(2, {});
  std::vector<Schedule> schedules;
  for (std::size_t q = 0; q < lengths.size(); ++q)
    step.plan.replicas[q % 2].sequences.emplace_back(q);
  for (ReplicaPlan& replica : step.plan.replicas) {
    replica.packs = testing::packed_plan(lengths, replica.sequences, Tokens(8));
    schedules.push_back(one_f_one_b(replica.packs, 1));
  }
  EngineOptions options = testing::engine_options(step);
  options.replicas = 2;
  std::atomic<int> asked = 0;
  options.hooks.before_action = [&] {
    if (asked++ == 0) throw Fault({0, "F", 1});
    std::this_thread::sleep_for(100ms);
  };
  Engine engine(options);
  Rng rng(1);
  const StepTokens tokens = testing::random_tokens(rng, step.cost.shape, lengths);
  EXPECT_THROW(
      static_cast<void>(engine.run(step.plan, lower(step.plan, schedules), tokens, std::nullopt)),
      Fault);
  EXPECT_LE(asked, 12);
}

}  // namespace
}  // namespace slimpack
