#include "slimpack/training/step_maker.h"

#include <chrono>
#include <future>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/threads.h"
#include "slimpack/training/process_message.h"

namespace slimpack {
namespace {

using Kind = ProcessMessage::Kind;

/// The plan in a message of the first process.
RunnablePlan received(std::string_view message, const StepPlanner& planner,
                      std::span<const DocumentSequence> sequences, std::string_view what) try {
  const std::string origin = fmt::format("{}: the plan of rank 0", what);
  HandedPlan handed = plan_from_message(message, origin);
  planner.require_of_this_run(handed.plan, lengths_of(sequences), origin);
  RunnablePlan planned;
  planned.plan = std::move(handed.plan);
  planned.lowered = std::move(handed.lowered);
  return planned;
} catch (const InvalidInput& e) {
  throw HandoverFailed(e.what());
}

}  // namespace

RunnablePlan plan_together(const JobAgreement& agreement, const StepPlanner& planner,
                           std::span<const DocumentSequence> sequences, std::int64_t targets,
                           std::string_view what, const MakePlan& make) {
  const auto plan = [&] { return make(planner, lengths_of(sequences)); };
  if (agreement.alone()) return plan();
  std::future<RunnablePlan> making;
  if (agreement.first())
    making = started("planning", [&] { return std::async(std::launch::async, plan); });
  const auto ready = [&](std::chrono::milliseconds wait) {
    return !making.valid() || making.wait_for(wait) == std::future_status::ready;
  };
  RunnablePlan planned;
  const std::optional<std::string> message = agreement.agree(what, ready, [&] {
    ProcessMessage own{Kind::kReady, checksum_of_documents(sequences, targets), ""};
    if (making.valid()) {
      planned = making.get();
      own.content = plan_message(planned.plan, planned.lowered);
    }
    return own;
  });
  return agreement.first() ? std::move(planned) : received(*message, planner, sequences, what);
}

StepMaker::StepMaker(DocumentStream stream, StepPlanner planner, PlannerKind kind,
                     const JobAgreement& agreement)
    : stream_(std::move(stream)),
      planner_(std::move(planner)),
      kind_(kind),
      agreement_(agreement),
      ahead_([this] { return make(); }) {}

void StepMaker::start(RankSpeeds speeds) {
  speeds_ = std::move(speeds);
  ahead_.start();
}

StepMaker::Made StepMaker::make() {
  Made made;
  const Nanos begin = monotonic_now();
  made.step.batch = stream_.next();
  if (!agreement_.first()) return made;
  const Nanos start = monotonic_now();
  made.step.reading_time = start - begin;
  made.step.planned = planner_.plan(lengths_of(made.step.batch.sequences),
                                    made.step.batch.target_share(), kind_, speeds_);
  made.step.planning_time = monotonic_now() - start;
  if (!agreement_.alone())
    made.plan_message = plan_message(made.step.planned.plan, made.step.planned.lowered);
  return made;
}

ReadyStep StepMaker::take_alone() {
  auto [made, waited] = ahead_.take();
  made.step.waited = waited;
  return std::move(made.step);
}

std::optional<ReadyStep> StepMaker::take(std::string_view what,
                                         const std::function<bool()>& out_of_time) {
  if (agreement_.alone()) {
    ReadyStep step = take_alone();
    return out_of_time() ? std::nullopt : std::optional(std::move(step));
  }
  const Nanos start = monotonic_now();
  const auto ready = [&](std::chrono::milliseconds wait) { return ahead_.ready_within(wait); };
  ReadyStep step;
  const std::optional<std::string> message = agreement_.agree(what, ready, [&]() -> ProcessMessage {
    Made made = ahead_.take().step;
    step = std::move(made.step);
    step.waited = monotonic_now() - start;
    if (out_of_time()) return {Kind::kOutOfTime};
    return {Kind::kReady, checksum_of_documents(step.batch.sequences, step.batch.tokens.targets),
            std::move(made.plan_message)};
  });
  if (!message) return std::nullopt;
  if (!agreement_.first()) step.planned = received(*message, planner_, step.batch.sequences, what);
  return step;
}

ReadyStep StepMaker::again(StepBatch batch, PlannerKind kind) const {
  const Nanos start = monotonic_now();
  RunnablePlan planned =
      plan_together(agreement_, planner_, batch.sequences, batch.tokens.targets, "last step again",
                    [&](const StepPlanner& planner, const SequenceLengths& lengths) {
                      return planner.plan(lengths, batch.target_share(), kind, speeds_);
                    });
  const Nanos took = monotonic_now() - start;
  return {std::move(batch), std::move(planned), took, took, Nanos(0)};
}

}  // namespace slimpack
